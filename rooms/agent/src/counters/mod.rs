//! Counter records: what the kernel counts, under the names and in the units of the specification.

mod host;
mod interface;

use weir_wire::sflow::encode::{Put, Records};
use weir_wire::sflow::{DataSource, Space, Structure};

pub(crate) use host::Host;
pub(crate) use interface::write as write_interface;

/// The data source of the machine itself, as host-sflow has it.
pub(crate) const HOST: DataSource = DataSource { class: DataSource::ENT_PHYSICAL, index: 1 };

/// Writes a record. Its values are of the structure: tests read them again.
pub(crate) fn put(records: &mut Records<'_>, space: Space, structure: &str, values: &[Put<'_>]) {
    let written = Structure::named(space, structure).map(|structure| records.put(structure, values));
    debug_assert_eq!(written, Some(Ok(())), "{structure}");
}

/// A 32-bit counter of one that the kernel has in 64.
fn wrapped(count: u64) -> Put<'static> {
    Put::U32(count as u32)
}

/// A counter that Linux does not have (specification, section 5.3: all ones).
const ABSENT: Put<'static> = Put::U32(u32::MAX);
