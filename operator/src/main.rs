//! Postern.
fn main() {}
