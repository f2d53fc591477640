//! The side of the backends: who can be asked, who is asked, and over which connection.

mod balance;
mod dial;
mod pool;

pub(crate) use balance::{Backend, Endpoint, InFlight, Shares};
pub(crate) use dial::{DialError, connect, stream};
pub(crate) use pool::{PoolKey, clear, keep, sweep, take};
