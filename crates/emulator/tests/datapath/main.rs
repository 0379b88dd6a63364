//! Real traffic between two namespaces, through an emulator.

mod carry;
mod network;
