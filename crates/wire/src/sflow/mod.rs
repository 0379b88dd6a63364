//! sFlow version 5, without copying and without allocating.
//!
//! ```text
//! Datagram -> Samples -> Sample -> Records -> Record -> Values: each field by its name in the specification
//!                                                    -> View: what is needed of every packet, as types
//! ```
//!
//! Every length that a datagram states is checked against what is there. What is malformed is told once, and costs what
//! is around it nothing: a structure that ends early the other records of its sample, a record that is longer than its
//! sample the other samples. Only where nobody can know at which byte the next part begins, the rest of what is around
//! it is given up.
//!
//! One table (`table`) says what each structure is made of and what its numbers mean; what is not in it passes by its
//! length.
//!
//! Source: "sFlow Version 5", sflow.org, July 2004, with its errata, and the structures listed at
//! sflow.org/developers/structures.php.

mod datagram;
pub mod encode;
mod identity;
mod malformed;
mod reasons;
mod record;
mod sample;
mod structure;
mod table;
mod value;
mod view;
mod xdr;

pub use datagram::{Datagram, Samples};
pub use identity::{DataFormat, DataSource, Interface};
pub use malformed::{Malformed, Part};
pub use reasons::reason_name;
pub use record::{Record, Records};
pub use sample::{CounterSample, DiscardedPacket, FlowSample, Sample};
pub use structure::{Field, Kind, Meaning, Space, Structure};
pub use value::{List, Value, Values};
pub use view::{
    AsPath, AsSegment, ExtendedAcl, ExtendedGateway, ExtendedHwTrap, ExtendedRouter, ExtendedSwitch, ExtendedUrl,
    ExtendedUser, HeaderProtocol, Numbers, SampledEthernet, SampledHeader, SampledIp, View,
};

/// The port that collectors listen on, registered with IANA.
pub const PORT: u16 = 6343;

#[cfg(test)]
mod tests;
