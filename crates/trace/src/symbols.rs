//! Names of the kernel's functions (/proc/kallsyms, where it is not hidden).

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};

/// Functions by the addresses that were asked for.
#[derive(Default)]
pub(super) struct Symbols {
    names: HashMap<u64, String>,
    /// Opened while it was not hidden.
    table: Option<File>,
}

impl Symbols {
    /// Of a process that is about to give up its privileges: addresses stay visible in a table that is open (kernel/kallsyms.c,
    /// kallsyms_open).
    pub(super) fn opened() -> Symbols {
        Symbols { table: File::open(TABLE).ok(), ..Symbols::default() }
    }

    /// Looks those up that are not known yet. The table is read anew for them: modules come and go.
    pub(super) fn learn(&mut self, addresses: impl IntoIterator<Item = u64>) {
        let wanted: BTreeSet<u64> = addresses.into_iter().filter(|address| !self.names.contains_key(address)).collect();
        if wanted.is_empty() {
            return;
        }
        let found = match &mut self.table {
            Some(table) => table.rewind().map(|()| nearest(BufReader::new(table), &wanted)),
            None => File::open(TABLE).map(|file| nearest(BufReader::new(file), &wanted)),
        };
        let found = found.unwrap_or_default();
        for address in wanted {
            self.names.insert(address, found.get(&address).cloned().unwrap_or_default());
        }
    }

    /// Empty: hidden, or none.
    pub(super) fn name(&self, address: u64) -> &str {
        self.names.get(&address).map_or("", String::as_str)
    }
}

/// The functions that contain return addresses: the nearest that begins before each.
pub(crate) fn nearest(table: impl BufRead, wanted: &BTreeSet<u64>) -> HashMap<u64, String> {
    let mut found: HashMap<u64, (u64, String)> = HashMap::new();
    for line in table.lines().map_while(Result::ok) {
        let Some((begin, name)) = function(&line) else { continue };
        // All functions lie within 2 GiB, and only the next few wanted addresses can be in one.
        for &address in wanted.range(begin + 1..).take_while(|&&address| address - begin < LONGEST) {
            let best = found.entry(address).or_default();
            if begin > best.0 {
                *best = (begin, name.to_owned());
            }
        }
    }
    found.into_iter().map(|(address, (_, name))| (address, name)).collect()
}

const TABLE: &str = "/proc/kallsyms";

/// No function of the kernel is longer.
const LONGEST: u64 = 1 << 20;

/// `ffffffff81a0 t name [module]`; hidden addresses are 0.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|&address| address != 0)?;
    if !matches!(words.next()?, "t" | "T" | "w" | "W") {
        return None;
    }
    Some((address, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_function_before_an_address_is_its_name() {
        let table = "ffff0100 t early\nffff0200 T udp_rcv\nffff0200 d data\nffff0300 t late [module]\n0 T hidden\n";
        let wanted = BTreeSet::from([0xffff_0250, 0xffff_0300, 0xffff_0301, 0x10, 0xffff_ffff_0000]);
        let found = nearest(table.as_bytes(), &wanted);
        assert_eq!(found[&0xffff_0250], "udp_rcv");
        assert_eq!(found[&0xffff_0300], "udp_rcv", "a return address just behind its last call");
        assert_eq!(found[&0xffff_0301], "late");
        assert_eq!(found.len(), 3);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left(line in ".{0,60}") {
            function(&line);
        }
    }
}
