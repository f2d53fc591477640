//! The generated code is what the protocol's file says; with `UPDATE=1` it is written anew.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_generated_code_follows_from_the_proto_file() {
    let root = Path::new(".");
    let committed = root.join("proto/generated.rs");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&out).expect("a folder for the result");
    let files = protox::compile(["config.proto"], [root.join("proto")]).expect("the file is right");
    tonic_prost_build::configure()
        .out_dir(&out)
        .bytes(".")
        .build_transport(false)
        .disable_comments(["."])
        .compile_fds(files)
        .expect("code is made of it");
    let made = fs::read_to_string(out.join("postern.config.v1.rs")).expect("the result");
    if env::var_os("UPDATE").is_some() {
        fs::write(&committed, &made).expect("the file can be written");
    }
    let present = fs::read_to_string(&committed).unwrap_or_default();
    assert!(present == made, "proto/generated.rs is not what config.proto says: run this test with UPDATE=1");
}
