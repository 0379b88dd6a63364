//! `weir sflow`.

mod decode;
mod serve;
