//! The header of a Weir test message.
