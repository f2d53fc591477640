//! The binary, and where its manifests are.

use std::path::PathBuf;
use std::process::Command;

/// The binary, with nothing of the surroundings that changes its output.
pub fn postern() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postern"));
    command.current_dir(fixtures()).env("SOURCE_DATE_EPOCH", "1764374400").env("COLUMNS", "110");
    command.env_remove("CLICOLOR_FORCE").env_remove("POSTERN_LOG");
    command
}

/// Where the manifests of the tests are.
pub fn fixtures() -> PathBuf {
    // Tests run in the folder of their package.
    std::env::current_dir().expect("a folder").join("tests/fixtures")
}
