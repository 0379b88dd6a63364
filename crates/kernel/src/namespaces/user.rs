//! The right to make networks, also as an ordinary user.
