//! stub
#![allow(missing_docs)]
use weir_kernel::namespaces::NetNs; use anyhow::Result; use std::time::Duration; use std::net::SocketAddr;
use crate::traffic::{Transport, bulk::BulkReport, clock::Nanos}; use crate::service::stop::Stop;
pub struct Settings { pub server: SocketAddr, pub transport: Transport, pub streams: u32, pub congestion: Option<String>, pub duration: Duration, pub warmup: Duration, pub payload: u64, pub rate: Option<u64>, pub interval: Duration, pub data_port: Option<u16>, pub connect_timeout: Duration }
pub struct Transfer;
impl Transfer { pub fn prepare(_: &NetNs, _: &NetNs, _: &Settings) -> Result<Self> { Ok(Transfer) } pub fn run(self, _: Nanos, _: &Stop) -> Result<BulkReport> { Ok(BulkReport::default()) } }
pub fn find() -> Result<String> { Ok("none".into()) }
