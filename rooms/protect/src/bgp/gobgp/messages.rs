//! The messages of gobgpd's interface that are used, with the fields that are used: numbers and names are those of its
//! `gobgp.proto` (v3.10.0, v4.8.0), where all of these are the same in both. What is not named here is skipped.

use prost::Message;

/// No fields.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

/// `google.protobuf.Timestamp`: since 1970.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetBgpResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) global: Option<Global>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Global {
    #[prost(uint32, tag = "1")]
    pub(crate) asn: u32,
    #[prost(string, tag = "2")]
    pub(crate) router_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Family {
    #[prost(int32, tag = "1")]
    pub(crate) afi: i32,
    #[prost(int32, tag = "2")]
    pub(crate) safi: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Path {
    #[prost(message, optional, tag = "3")]
    pub(crate) age: Option<Timestamp>,
    #[prost(bool, tag = "5")]
    pub(crate) is_withdraw: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) family: Option<Family>,
    #[prost(string, tag = "15")]
    pub(crate) neighbor_ip: String,
    #[prost(bytes = "vec", tag = "20")]
    pub(crate) nlri_binary: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "21")]
    pub(crate) pattrs_binary: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddPathStreamRequest {
    #[prost(int32, tag = "1")]
    pub(crate) table_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) paths: Vec<Path>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListPathRequest {
    #[prost(int32, tag = "1")]
    pub(crate) table_type: i32,
    /// A neighbour's address, of its tables.
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) family: Option<Family>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) prefixes: Vec<TableLookupPrefix>,
    /// No attribute but as bytes.
    #[prost(bool, tag = "9")]
    pub(crate) enable_only_binary: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TableLookupPrefix {
    #[prost(string, tag = "1")]
    pub(crate) prefix: String,
    /// `lookup_option` in v3.
    #[prost(int32, tag = "2")]
    pub(crate) r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListPathResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) destination: Option<Destination>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Destination {
    #[prost(message, repeated, tag = "2")]
    pub(crate) paths: Vec<Path>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListPeerResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) peer: Option<Peer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(message, optional, tag = "5")]
    pub(crate) state: Option<PeerState>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PeerState {
    #[prost(string, tag = "5")]
    pub(crate) neighbor_address: String,
    #[prost(uint32, tag = "6")]
    pub(crate) peer_asn: u32,
    /// 1 to 6: idle, connect, active, opensent, openconfirm, established.
    #[prost(int32, tag = "13")]
    pub(crate) session_state: i32,
}
