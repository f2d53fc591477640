//! The routing table: which rule takes a request, and why.
