//! `weir monitor`: stations, servers, viewers and archives, in namespaces, against decoders that share no code.

mod archive;
mod check;
mod page;
mod endurance;
mod serve;
mod station;
mod together;
