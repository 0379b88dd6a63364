//! A sample as a JSON object, with the field names of the specification.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::json;
use weir_wire::frame::{Frame, Start};
use weir_wire::sflow::{DataFormat, DataSource, Interface, Record, Records, Sample, Value, Values, View, reason_name};

use super::layers::Layers;
use super::text::{hex, mac, uuid};
use super::{Line, name};

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &self.time)?;
        map.serialize_entry("source", &self.arrived.source)?;
        map.serialize_entry("agent_address", &self.datagram.agent)?;
        map.serialize_entry("sub_agent_id", &self.datagram.sub_agent)?;
        map.serialize_entry("datagram_sequence_number", &self.datagram.sequence)?;
        map.serialize_entry("uptime", &self.datagram.uptime)?;
        match self.sample {
            Ok(sample) => write_sample(&mut map, sample)?,
            Err(malformed) => map.serialize_entry("error", &malformed.to_string())?,
        }
        map.end()
    }
}

fn write_sample<M: SerializeMap>(map: &mut M, sample: &Sample<'_>) -> Result<(), M::Error> {
    map.serialize_entry("sample", name(sample))?;
    match sample {
        Sample::Flow(flow) => {
            map.serialize_entry("sequence_number", &flow.sequence)?;
            write_source(map, flow.source)?;
            map.serialize_entry("sampling_rate", &flow.sampling_rate)?;
            map.serialize_entry("sample_pool", &flow.sample_pool)?;
            map.serialize_entry("drops", &flow.drops)?;
            write_interface(map, ["input_format", "input", "input_reason"], flow.input)?;
            write_interface(map, ["output_format", "output", "output_reason"], flow.output)?;
        }
        Sample::Counters(counters) => {
            map.serialize_entry("sequence_number", &counters.sequence)?;
            write_source(map, counters.source)?;
        }
        Sample::Discarded(packet) => {
            map.serialize_entry("sequence_number", &packet.sequence)?;
            write_source(map, packet.source)?;
            map.serialize_entry("drops", &packet.drops)?;
            map.serialize_entry("inputifindex", &packet.input.parts().1)?;
            map.serialize_entry("outputifindex", &packet.output.parts().1)?;
            map.serialize_entry("reason", &packet.reason)?;
            map.serialize_entry("reason_name", &reason_name(packet.reason))?;
        }
        Sample::Unknown { format, body } => return write_unknown(map, *format, body),
    }
    map.serialize_entry("records", &List { records: sample.records(), depth: 0 })
}

fn write_source<M: SerializeMap>(map: &mut M, source: DataSource) -> Result<(), M::Error> {
    map.serialize_entry("source_id_type", &source.class)?;
    map.serialize_entry("source_id_index", &source.index)
}

/// As the expanded form has it; the name of a reason where the packet was dropped.
fn write_interface<M: SerializeMap>(map: &mut M, names: [&str; 3], interface: Interface) -> Result<(), M::Error> {
    let (format, value) = interface.parts();
    map.serialize_entry(names[0], &format)?;
    map.serialize_entry(names[1], &value)?;
    match interface {
        Interface::Discarded(reason) => map.serialize_entry(names[2], &reason_name(reason)),
        _ => Ok(()),
    }
}

fn write_unknown<M: SerializeMap>(map: &mut M, format: DataFormat, body: &[u8]) -> Result<(), M::Error> {
    map.serialize_entry("enterprise", &format.enterprise)?;
    map.serialize_entry("format", &format.format)?;
    map.serialize_entry("length", &body.len())?;
    map.serialize_entry("bytes", &hex(body))
}

/// Records; those within records within records are only bytes, so that nothing is deep.
struct List<'a> {
    records: Records<'a>,
    depth: u8,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for record in self.records {
            match record {
                Ok(record) => list.serialize_element(&One { record, depth: self.depth })?,
                Err(malformed) => list.serialize_element(&json!({"error": malformed.to_string()}))?,
            }
        }
        list.end()
    }
}

struct One<'a> {
    record: Record<'a>,
    depth: u8,
}

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let format = self.record.format;
        match self.record.structure.filter(|_| self.depth < 2) {
            None => write_unknown(&mut map, format, self.record.body)?,
            Some(structure) => {
                map.serialize_entry("structure", structure.name)?;
                write_fields(&mut map, self.record.values(), self.depth)?;
                if let Ok(View::Header(header)) = self.record.view()
                    && let Some(start) = Start::from_header_protocol(header.protocol.0)
                {
                    map.serialize_entry("layers", &Layers(&Frame::parse(start, header.header)))?;
                }
            }
        }
        map.end()
    }
}

fn write_fields<M: SerializeMap>(map: &mut M, values: Values<'_>, depth: u8) -> Result<(), M::Error> {
    for value in values {
        match value {
            Ok((field, value)) => map.serialize_entry(field.name, &Json { value, depth })?,
            Err(malformed) => map.serialize_entry("error", &malformed.to_string())?,
        }
    }
    Ok(())
}

struct Json<'a> {
    value: Value<'a>,
    depth: u8,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::U8(value) => serializer.serialize_u8(value),
            Value::U32(value) => serializer.serialize_u32(value),
            Value::I32(value) => serializer.serialize_i32(value),
            Value::U64(value) => serializer.serialize_u64(value),
            Value::F32(value) => serializer.serialize_f32(value),
            Value::Mac(octets) => mac(octets).serialize(serializer),
            Value::Address(address) => address.serialize(serializer),
            Value::Uuid(octets) => uuid(octets).serialize(serializer),
            Value::Text(text) => String::from_utf8_lossy(text).serialize(serializer),
            Value::Opaque(bytes) => hex(bytes).serialize(serializer),
            Value::Structure(values) => {
                let mut map = serializer.serialize_map(None)?;
                write_fields(&mut map, values, self.depth)?;
                map.end()
            }
            Value::List(values) => {
                let mut list = serializer.serialize_seq(None)?;
                for value in values {
                    list.serialize_element(&Json { value, depth: self.depth })?;
                }
                list.end()
            }
            Value::Records(records) => List { records, depth: self.depth + 1 }.serialize(serializer),
        }
    }
}
