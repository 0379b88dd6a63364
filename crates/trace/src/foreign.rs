//! Bytes and text of the kernel, all of them, for the targets in fuzz/ alone.

use std::collections::BTreeSet;

use crate::btf::Btf;
use crate::symbols;

/// The kernel's types, as /sys/kernel/btf/vmlinux has them, and what is asked of them.
pub fn btf(bytes: &[u8]) {
    if let Ok(types) = Btf::parse(bytes.to_vec()) {
        let _ = (types.enumerators("skb_drop_reason"), types.enumerator("a"));
        let _ = types.arguments("kfree_skb");
    }
}

/// Text, read as /proc/kallsyms.
pub fn symbols(text: &str) {
    let _ = symbols::nearest(text.as_bytes(), &BTreeSet::from([1, 0xffff_ffff_8100_0000, u64::MAX]));
}
