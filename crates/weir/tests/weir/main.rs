//! Black box: the `weir` command as a user runs it.

mod send_recv;
