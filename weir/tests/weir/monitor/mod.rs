//! `weir monitor`: stations, servers, viewers and archives, in namespaces, against decoders that share no code.

mod serve;
mod station;
