//! `weir sflow`.

mod serve;
