//! Reading the kernel's type information (BTF, Documentation/bpf/btf.rst): what the loader does not tell.

use std::collections::{BTreeMap, HashMap};

/// Types of a kernel, by number.
pub(crate) struct Btf {
    bytes: Vec<u8>,
    /// Where the names begin in `bytes`.
    names: usize,
    /// Where each type begins in `bytes`; number 0 is void.
    types: Vec<usize>,
    /// Types by kind and name; of typedefs the tracepoints alone.
    named: HashMap<(u32, String), usize>,
}

const MAGIC: u16 = 0xeb9f;
const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// What the typedef of a tracepoint's probe function begins with.
const TRACEPOINT: &str = "btf_trace_";

/// Deeper than any kernel stacks qualifiers.
const DEEPEST: u32 = 16;

impl Btf {
    /// Takes the bytes of /sys/kernel/btf/vmlinux.
    ///
    /// # Errors
    /// With what is wrong with them.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Btf, &'static str> {
        let word = |at: usize| read_u32(&bytes, at).ok_or("cut off");
        let magic = bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        if magic != Some(MAGIC) {
            return Err("no BTF of this machine's byte order");
        }
        let header = word(4)? as usize;
        let [first, length, names, names_length] =
            [word(8)?, word(12)?, word(16)?, word(20)?].map(|word| word as usize);
        let (first, names) = (header + first, header + names);
        let end = first + length;
        if end > bytes.len() || names + names_length > bytes.len() {
            return Err("cut off");
        }
        let mut types = vec![first];
        let mut at = first;
        while at < end {
            types.push(at);
            let info = word(at + 4)?;
            let members = (info & 0xffff) as usize;
            at += 12
                + match info >> 24 & 0x1f {
                    INT | VAR | DECL_TAG => 4,
                    ARRAY => 12,
                    STRUCT | UNION | DATASEC | ENUM64 => 12 * members,
                    ENUM | FUNC_PROTO => 8 * members,
                    _ => 0,
                };
        }
        if at != end {
            return Err("its last type is cut off");
        }
        let mut btf = Btf { bytes, names, types, named: HashMap::new() };
        for number in 1..btf.types.len() {
            let Some(kind @ (STRUCT | ENUM | TYPEDEF)) = btf.kind(number) else { continue };
            let Some(name) = btf.word(btf.types[number]).filter(|&at| at != 0).and_then(|at| btf.name(at)) else {
                continue;
            };
            if kind != TYPEDEF || name.starts_with(TRACEPOINT) {
                let name = name.to_owned();
                btf.named.entry((kind, name)).or_insert(number);
            }
        }
        Ok(btf)
    }

    /// The enumerators of a named enum with values of 32 bits: value and name.
    pub(crate) fn enumerators(&self, name: &str) -> Option<BTreeMap<u32, String>> {
        let number = self.find(ENUM, name)?;
        Some(self.enumerators_of(number).map(|(name, value)| (value, name.to_owned())).collect())
    }

    /// The value of an enumerator of an enum without a name.
    pub(crate) fn enumerator(&self, name: &str) -> Option<u32> {
        let enums = (1..self.types.len())
            .filter(|&number| self.kind(number) == Some(ENUM) && self.word(self.types[number]) == Some(0));
        enums.flat_map(|number| self.enumerators_of(number)).find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// How many arguments a tracepoint has; `None`: the kernel has no such tracepoint.
    pub(crate) fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let typedef = self.find(TYPEDEF, &format!("{TRACEPOINT}{tracepoint}"))?;
        let pointer = self.resolve(self.target(typedef)?)?;
        let prototype = self.resolve(self.target(pointer)?)?;
        if self.kind(pointer)? != PTR || self.kind(prototype)? != FUNC_PROTO {
            return None;
        }
        // The first is the tracepoint's private data.
        self.members(prototype)?.checked_sub(1)
    }

    fn enumerators_of(&self, number: usize) -> impl Iterator<Item = (&str, u32)> {
        let at = self.types.get(number).copied().unwrap_or(usize::MAX / 2) + 12;
        (0..self.members(number).unwrap_or(0))
            .filter_map(move |index| Some((self.name(self.word(at + 8 * index)?)?, self.word(at + 8 * index + 4)?)))
    }

    fn find(&self, kind: u32, name: &str) -> Option<usize> {
        self.named.get(&(kind, name.to_owned())).copied()
    }

    fn kind(&self, number: usize) -> Option<u32> {
        Some(self.info(number)? >> 24 & 0x1f)
    }

    fn members(&self, number: usize) -> Option<usize> {
        Some((self.info(number)? & 0xffff) as usize)
    }

    fn info(&self, number: usize) -> Option<u32> {
        if number == 0 {
            return None;
        }
        self.word(self.types.get(number)? + 4)
    }

    /// The type that a pointer, typedef or qualifier is about.
    fn target(&self, number: usize) -> Option<usize> {
        self.info(number)?;
        Some(self.word(self.types[number] + 8)? as usize)
    }

    /// Past typedefs and qualifiers.
    fn resolve(&self, mut number: usize) -> Option<usize> {
        for _ in 0..DEEPEST {
            if !matches!(self.kind(number)?, TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
                return Some(number);
            }
            number = self.target(number)?;
        }
        None
    }

    fn word(&self, at: usize) -> Option<u32> {
        read_u32(&self.bytes, at)
    }

    fn name(&self, offset: u32) -> Option<&str> {
        let bytes = self.bytes.get(self.names + offset as usize..)?;
        let length = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..length]).ok()
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Name, offset and size of a member, in bytes.
#[cfg(test)]
type Member = (String, usize, usize);

/// What is read of our own programs' types, to hold them against ours.
#[cfg(test)]
impl Btf {
    /// Size of a named struct, and name, offset and size of each member, in bytes.
    pub(super) fn layout(&self, name: &str) -> Option<(usize, Vec<Member>)> {
        let number = self.find(STRUCT, name)?;
        let member = |(name, kind, bits): (&str, usize, usize)| Some((name.to_owned(), bits / 8, self.size(kind)?));
        Some((self.size(number)?, self.fields(number).map(member).collect::<Option<_>>()?))
    }

    /// Names of the structs that are keys or values of maps.
    pub(super) fn held_by_maps(&self) -> std::collections::BTreeSet<String> {
        let variables = (1..self.types.len()).filter(|&number| self.kind(number) == Some(VAR));
        let maps = variables.filter_map(|number| self.resolve(self.target(number)?));
        let maps = maps.filter(|&number| self.kind(number) == Some(STRUCT));
        let held = maps.flat_map(|number| self.fields(number)).filter(|(name, ..)| ["key", "value"].contains(name));
        // A member `value` points to what the map holds.
        let held = held.filter_map(|(_, pointer, _)| self.resolve(self.target(pointer)?));
        let named = held.filter(|&number| self.kind(number) == Some(STRUCT));
        named.filter_map(|number| Some(self.name(self.word(self.types[number])?)?.to_owned())).collect()
    }

    /// Name, type and offset in bits of each member.
    fn fields(&self, number: usize) -> impl Iterator<Item = (&str, usize, usize)> {
        (0..self.members(number).unwrap_or(0)).filter_map(move |index| {
            let at = self.types[number] + 12 + 12 * index;
            Some((self.name(self.word(at)?)?, self.word(at + 4)? as usize, self.word(at + 8)? as usize))
        })
    }

    fn size(&self, number: usize) -> Option<usize> {
        let number = self.resolve(number)?;
        let at = self.types[number];
        match self.kind(number)? {
            PTR => Some(8),
            ARRAY => Some(self.size(self.word(at + 12)? as usize)? * self.word(at + 20)? as usize),
            INT | STRUCT | UNION | ENUM | ENUM64 => Some(self.word(at + 8)? as usize),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BTF of: enum reason { NONE, FULL = 7 }, and typedef void (*btf_trace_drop)(void *, int, int), and
    /// struct outer { int a; struct { int b; }; }, and enum { JOINED = 3 }.
    fn sample() -> Vec<u8> {
        let mut names = vec![0];
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend_from_slice(text.as_bytes());
            names.push(0);
            at
        };
        let words = [
            [name("int"), INT << 24, 4].to_vec(),
            vec![32],
            [name("reason"), ENUM << 24 | 2, 4].to_vec(),
            vec![name("NONE"), 0, name("FULL"), 7],
            [0, FUNC_PROTO << 24 | 3, 0].to_vec(),
            vec![0, 0, 0, 1, 0, 1],
            vec![0, PTR << 24, 3],
            vec![name("btf_trace_drop"), TYPEDEF << 24, 4],
            vec![0, STRUCT << 24 | 1, 4],
            vec![name("b"), 1, 0],
            vec![name("outer"), STRUCT << 24 | 2, 8],
            vec![name("a"), 1, 0, 0, 6, 32],
            vec![0, ENUM << 24 | 1, 4, name("JOINED"), 3],
        ]
        .concat();
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), names.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(names);
        bytes
    }

    #[test]
    fn finds_enumerators_and_arguments() {
        let btf = Btf::parse(sample()).unwrap();
        assert_eq!(btf.enumerators("reason").unwrap(), BTreeMap::from([(0, "NONE".into()), (7, "FULL".into())]));
        assert_eq!(btf.enumerator("JOINED"), Some(3));
        assert_eq!(btf.enumerator("FULL"), None, "it belongs to an enum with a name");
        assert_eq!(btf.arguments("drop"), Some(2));
        assert_eq!(btf.arguments("other"), None);
    }

    proptest! {
        #[test]
        fn damaged_types_are_refused_or_read_but_never_a_panic(
            at in 0usize..300, value: u8, keep in 0usize..400,
        ) {
            let mut bytes = sample();
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(keep.max(24));
            if let Ok(btf) = Btf::parse(bytes) {
                btf.enumerators("reason");
                btf.enumerator("JOINED");
                btf.arguments("drop");
            }
        }
    }
}
