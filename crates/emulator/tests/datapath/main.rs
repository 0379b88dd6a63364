//! Real traffic between two namespaces, through an emulator.

mod links;
mod network;
mod tcp;
mod udp;
