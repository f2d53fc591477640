//! The last good configuration comes back whole, or not at all, and only its owner reads it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use postern_config::delta::Contents;
use postern_config::{Certificate, Config, Listener, ObjectKey, PrivateKey, Protocol};
use postern_dataplane::last_good::{Unusable, load, save};

fn contents() -> Contents {
    let mut config = Config::default();
    let listener = Listener { port: 80, protocol: Protocol::Http, hostname: None };
    config.listeners.insert("web".into(), listener.into());
    let certificate = Certificate { chain: "chain".into(), key: PrivateKey::new("canary") };
    config.certificates.insert(ObjectKey::new("shop", "tls"), certificate.into());
    Contents::of(&config)
}

fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("last-good");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(name);
    let _ = fs::remove_file(&file);
    file
}

#[test]
fn what_was_saved_is_loaded_and_nobody_else_reads_it() {
    let file = file("whole.json");
    assert!(matches!(load(&file), Ok(None)), "there is none yet");
    fs::write(file.with_extension("new"), "left by an earlier run").expect("a file");
    for _ in 0..2 {
        save(&file, &contents()).expect("saved");
        assert_eq!(load(&file).expect("whole"), Some(contents()));
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_file_that_is_not_whole_is_not_used_and_not_quoted() {
    let file = file("damaged.json");
    save(&file, &contents()).expect("saved");
    let whole = fs::read(&file).expect("a file");
    for end in [0, 5, 30, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..end]).expect("a file");
        let error = load(&file).expect_err("cut off");
        assert!(matches!(error, Unusable::Unknown | Unusable::Damaged), "{end}: {error}");
        assert!(!error.to_string().contains("canary"));
    }
    let text = String::from_utf8(whole).expect("text").replace("canary", "others");
    fs::write(&file, text).expect("a file");
    assert!(matches!(load(&file), Err(Unusable::Damaged)));
}
