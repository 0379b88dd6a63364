//! `weir monitor`: stations, servers, viewers and archives, in namespaces, against decoders that share no code.

mod endurance;
mod serve;
mod station;
