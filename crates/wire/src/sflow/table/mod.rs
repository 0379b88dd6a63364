//! The one table of structures, made when the program is compiled.

mod application;
mod device;
mod host;
mod interface;
mod operation;
mod packet;

use super::DataFormat;
use super::structure::{Field, Kind, Meaning, Space, Structure};

/// Flow records that are known, by number; those of vendors last.
pub(super) const FLOW: &[&Structure] = &FLOWS;

/// Counter records that are known, by number; those of vendors last.
pub(super) const COUNTER: &[&Structure] = &COUNTERS;

const FLOWS: [&Structure; packet::STRUCTURES.len() + operation::STRUCTURES.len()] =
    joined(&[packet::STRUCTURES, operation::STRUCTURES]);

const COUNTERS: [&Structure;
    interface::STRUCTURES.len() + host::STRUCTURES.len() + application::STRUCTURES.len() + device::STRUCTURES.len()] =
    joined(&[interface::STRUCTURES, host::STRUCTURES, application::STRUCTURES, device::STRUCTURES]);

static FLOW_PLACES: [u8; FORMATS] = places(FLOW);
static COUNTER_PLACES: [u8; FORMATS] = places(COUNTER);

/// A format number has 12 bits.
const FORMATS: usize = 1 << 12;

/// The structure of a number: those of sflow.org at once.
#[inline]
pub(super) fn find(space: Space, format: DataFormat) -> Option<&'static Structure> {
    let (known, places) = match space {
        Space::Flow => (FLOW, &FLOW_PLACES),
        Space::Counter => (COUNTER, &COUNTER_PLACES),
    };
    if format.enterprise == 0 {
        let place = *places.get(format.format as usize)?;
        return known.get(usize::from(place).checked_sub(1)?).copied();
    }
    let vendors = known.iter().rev().take_while(|structure| structure.format.enterprise != 0);
    vendors.copied().find(|structure| structure.format == format)
}

/// Where each structure of sflow.org stands among the known ones, from 1; 0: nowhere.
const fn places(known: &[&Structure]) -> [u8; FORMATS] {
    let mut places = [0; FORMATS];
    let mut at = 0;
    while at < known.len() {
        if known[at].format.enterprise == 0 {
            places[known[at].format.format as usize] = at as u8 + 1;
        }
        at += 1;
    }
    places
}

const fn joined<const N: usize>(parts: &[&[&'static Structure]]) -> [&'static Structure; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at, mut to) = (0, 0, 0);
    while part < parts.len() {
        while at < parts[part].len() {
            all[to] = parts[part][at];
            (at, to) = (at + 1, to + 1);
        }
        (part, at) = (part + 1, 0);
    }
    all
}

/// A flow record of sflow.org.
const fn flow(format: u32, name: &'static str, fields: &'static [Field]) -> Structure {
    Structure { space: Space::Flow, format: DataFormat { enterprise: 0, format }, name, fields, required: fields.len() }
}

/// A counter record of sflow.org.
const fn counter_block(format: u32, name: &'static str, fields: &'static [Field]) -> Structure {
    Structure { space: Space::Counter, ..flow(format, name, fields) }
}

impl Structure {
    /// Of a vendor.
    const fn of_vendor(self, enterprise: u32) -> Self {
        Self { format: DataFormat { enterprise, format: self.format.format }, ..self }
    }

    /// Was published with so many fields; the others were appended later.
    const fn grown_from(self, required: usize) -> Self {
        Self { required, ..self }
    }
}

const fn sampled(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, meaning: Meaning::Sampled }
}

const fn counter(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, meaning: Meaning::Counter }
}

const fn gauge(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, meaning: Meaning::Gauge }
}

const fn identity(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, meaning: Meaning::Identity }
}

const fn state(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, meaning: Meaning::State }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_stands_for_one_structure() {
        for (space, known) in [(Space::Flow, FLOW), (Space::Counter, COUNTER)] {
            assert!(known.len() < usize::from(u8::MAX));
            // Sorted, and none twice.
            assert!(known.is_sorted_by(|a, b| a.format < b.format));
            for structure in known {
                assert_eq!(structure.space, space, "{}", structure.name);
                assert_eq!(find(space, structure.format), Some(*structure));
                assert!(structure.required <= structure.fields.len() && structure.required > 0);
                let is_packet = |field: &Field| field.meaning == Meaning::Sampled;
                assert!(structure.fields.iter().all(|field| is_packet(field) == (space == Space::Flow)));
            }
        }
        for unknown in [(0, 0), (0, 999), (0, 4095), (0, 4096), (1, 1), (4413, 4), (0xf_ffff, 1)] {
            let format = DataFormat { enterprise: unknown.0, format: unknown.1 };
            assert_eq!(find(Space::Flow, format), None);
            assert_eq!(find(Space::Counter, format), None);
        }
    }

    /// Only numbers can be counters, and rates are made of those.
    #[test]
    fn counters_are_numbers() {
        for field in COUNTER.iter().flat_map(|structure| structure.fields) {
            if field.meaning == Meaning::Counter {
                assert!(matches!(field.kind, Kind::U32 | Kind::U64), "{}", field.name);
            }
        }
    }
}
