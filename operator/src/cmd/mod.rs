//! The commands, one file each.

pub mod completions;
pub mod describe;
pub mod man;
pub mod operator;
pub mod route;
pub mod serve;
pub mod status;
pub mod table;
