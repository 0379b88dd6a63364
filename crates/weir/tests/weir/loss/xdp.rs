//! An XDP program as an object file, assembled by hand: tests need no compiler.

/// Drops frames of this length.
pub(super) fn dropping(length: usize) -> Vec<u8> {
    let length = u8::try_from(length).unwrap();
    // code, destination and source register, offset, immediate value (linux/bpf.h; struct xdp_md: data, data_end).
    let program: [[u8; 8]; 7] = [
        [0x61, 0x12, 4, 0, 0, 0, 0, 0],      // r2 = *(u32 *)(r1 + 4)
        [0x61, 0x13, 0, 0, 0, 0, 0, 0],      // r3 = *(u32 *)(r1 + 0)
        [0x1f, 0x32, 0, 0, 0, 0, 0, 0],      // r2 -= r3
        [0xb7, 0x00, 0, 0, PASS, 0, 0, 0],   // r0 = XDP_PASS
        [0x55, 0x02, 1, 0, length, 0, 0, 0], // if r2 != length goto +1
        [0xb7, 0x00, 0, 0, DROP, 0, 0, 0],   // r0 = XDP_DROP
        [0x95, 0x00, 0, 0, 0, 0, 0, 0],      // exit
    ];
    object(&program.concat())
}

const DROP: u8 = 1;
const PASS: u8 = 2;

/// A relocatable ELF file with one program, `xdp`, as libbpf wants it (elf(5)).
fn object(program: &[u8]) -> Vec<u8> {
    let names = b"\0xdp\0.symtab\0.strtab\0";
    let symbols = [[0; 24], symbol(program.len() as u64)].concat();
    let program_at = 64;
    let symbols_at = program_at + program.len();
    let names_at = symbols_at + symbols.len();
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = Vec::new();
    // ELF64, little endian.
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([1u16, 247].map(u16::to_le_bytes).concat()); // ET_REL, EM_BPF
    file.extend(1u32.to_le_bytes());
    file.extend([0, 0, sections_at as u64].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 0, 0, 64, 4, 3].map(u16::to_le_bytes).concat());
    file.extend(program);
    file.extend(symbols);
    file.extend(names);
    file.resize(sections_at, 0);
    // Name, type, flags, address, offset, size, link, info, alignment, entry size.
    file.extend([0; 64]);
    file.extend(section(1, 1, 6, program_at, program.len(), 0, 0, 0)); // PROGBITS, ALLOC and EXECINSTR
    file.extend(section(5, 2, 0, symbols_at, 48, 3, 1, 24)); // SYMTAB, the first global symbol is 1
    file.extend(section(13, 3, 0, names_at, names.len(), 0, 0, 0)); // STRTAB
    file
}

/// The global function `xdp` at the begin of section 1.
fn symbol(size: u64) -> [u8; 24] {
    let mut symbol = [0; 24];
    symbol[0] = 1;
    symbol[4] = 0x12;
    symbol[6] = 1;
    symbol[16..].copy_from_slice(&size.to_le_bytes());
    symbol
}

#[allow(clippy::too_many_arguments)]
fn section(name: u32, kind: u32, flags: u64, at: usize, size: usize, link: u32, info: u32, entry: u64) -> Vec<u8> {
    let mut header = [name, kind].map(u32::to_le_bytes).concat();
    header.extend([flags, 0, at as u64, size as u64].map(u64::to_le_bytes).concat());
    header.extend([link, info].map(u32::to_le_bytes).concat());
    header.extend([8, entry].map(u64::to_le_bytes).concat());
    header
}
