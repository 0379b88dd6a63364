//! `weir monitor`: stations, servers, viewers and archives, in namespaces, against decoders that share no code.

mod archive;
mod check;
mod endurance;
mod outputs;
mod page;
mod serve;
mod station;
mod together;
mod view;
