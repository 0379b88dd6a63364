//! What Weir asks of Linux besides moving datagrams.
//!
//! [`namespaces`] makes users, networks and process trees of our own; [`links`] fills a network with interfaces,
//! addresses and routes over netlink; [`offloads`] switches an interface's segmentation and checksum offloads;
//! [`counters`] reads what the kernel counted; [`tcp`] asks about one connection.

pub mod tcp;
