//! How conditions are read and written: which of them is good news, and when each last changed.

pub mod conditions;
pub mod stamp;
