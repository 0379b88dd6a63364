//! What Weir asks of Linux besides moving datagrams.
//!
//! [`namespaces`] makes users, networks and process trees of our own; [`links`] fills a network with interfaces,
//! addresses and routes over netlink, [`sysctl`] sets its settings; [`offloads`] switches an interface's segmentation
//! and checksum offloads, [`ethtool`] asks and sets its driver; [`counters`] reads what the kernel counted, [`sockets`]
//! finds UDP sockets, their memory and their owners, [`next_hops`] tells who is given packets and whether they answer, [`processes`] tells who there is, [`processors`] where time went and what the processors do,
//! [`tcp`] asks about one connection, [`capture`] hears an interface; [`rendezvous`]
//! hands descriptors to other processes of the same user; [`limits`] and [`host`] tell what the machine allows and what
//! it is, [`usage`] what we take of it; [`scheduling`] says who runs first and where, [`steering`] where packets are
//! received; [`capabilities`] gives privileges up, [`confinement`] files, and [`activation`] takes over sockets that a service manager opened.
//!
//! Everything is synchronous. Nothing here outlives its owner: namespaces are held by descriptors alone, and child
//! programs live in process trees that the kernel ends with their owner.

pub mod activation;
pub mod capabilities;
pub mod capture;
pub mod confinement;
pub mod counters;
pub mod error;
pub mod ethtool;
#[doc(hidden)]
pub mod foreign;
pub mod host;
pub mod limits;
pub mod links;
pub mod namespaces;
pub mod next_hops;
pub mod offloads;
pub mod processes;
pub mod processors;
pub mod rendezvous;
pub mod scheduling;
pub mod sockets;
pub mod steering;
pub mod sysctl;
pub mod tcp;
pub mod usage;

mod legible;
mod netlink;
mod proc;
mod sys;

pub use error::Error;
