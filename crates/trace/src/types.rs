//! The kernel's own type information.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use aya::{Btf as AyaBtf, Endianness};

use super::btf::Btf;
use weir_kernel::Error;
use weir_kernel::error::During;

/// The names of this kernel's drop reasons, as [`super::Drop::reason`] has them; none before 5.17.
///
/// # Errors
/// If the kernel has no type information.
pub fn drop_reasons() -> Result<Vec<String>, Error> {
    Ok(Types::read(Path::new(super::BTF))?.reasons().0.into_values().collect())
}

/// The names of a kernel's drop reasons, without `SKB_DROP_REASON_`.
#[derive(Default)]
pub(super) struct Reasons(BTreeMap<u32, String>);

impl Reasons {
    /// Empty: this kernel has no reasons.
    pub(super) fn name(&self, number: u32) -> Cow<'_, str> {
        match self.0.get(&number) {
            _ if self.0.is_empty() => "".into(),
            Some(name) => name.into(),
            // Subsystems have reasons of their own, without names here (include/net/dropreason.h).
            None => format!("{number:#x}").into(),
        }
    }

    /// Where there is no such reason, a number that no reason has.
    pub(super) fn number(&self, name: &str) -> u32 {
        self.0.iter().find(|(_, own)| *own == name).map_or(u32::MAX, |(&number, _)| number)
    }
}

/// A kernel's type information, as the loader wants it and as we read it.
pub(super) struct Types {
    pub(super) own: Btf,
    pub(super) loader: AyaBtf,
}

impl Types {
    pub(super) fn reasons(&self) -> Reasons {
        let all = self.own.enumerators("skb_drop_reason").unwrap_or_default().into_iter();
        let named = |(number, name): (u32, String)| Some((number, name.strip_prefix("SKB_DROP_REASON_")?.to_owned()));
        Reasons(all.filter_map(named).collect())
    }

    pub(super) fn read(path: &Path) -> Result<Types, Error> {
        let operation = || format!("read the kernel's types from {}", path.display());
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let detail = "no such file (needs a kernel from 5.5 built with CONFIG_DEBUG_INFO_BTF)";
                return Err(Error::answer(operation(), detail));
            }
            other => other.during(operation)?,
        };
        let loader = AyaBtf::parse(&bytes, Endianness::default())
            .map_err(|error| Error::answer(operation(), error.to_string()))?;
        let own = Btf::parse(bytes).map_err(|detail| Error::answer(operation(), detail))?;
        Ok(Types { own, loader })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_types_is_one_line_with_the_remedy() {
        let error = Types::read(Path::new("/nowhere/vmlinux")).err().unwrap().to_string();
        assert_eq!(
            error,
            "read the kernel's types from /nowhere/vmlinux: no such file \
             (needs a kernel from 5.5 built with CONFIG_DEBUG_INFO_BTF)"
        );
    }
}
