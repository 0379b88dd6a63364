//! `weir sflow`.

mod decode;
