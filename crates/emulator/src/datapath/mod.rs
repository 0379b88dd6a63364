//! Real frames between two interfaces, by packet sockets, in real time.
