//! The namespaces that are followed.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use weir_kernel::namespaces::{self, NetNs};

use crate::reading::NamespaceReader;

/// Opens the namespaces that were named.
pub(super) fn open(named: &[String], warnings: &mut BTreeSet<String>) -> Result<Vec<NamespaceReader>> {
    let mut readers: Vec<NamespaceReader> = Vec::new();
    let listed = namespaces::all().unwrap_or_default();
    let name_of =
        |inode: u32| listed.iter().find(|listed| listed.inode == inode).and_then(|listed| listed.name.clone());
    let mut found: Vec<NetNs> = Vec::new();
    if named.is_empty() {
        found.push(NetNs::current()?);
    }
    for text in named {
        if text != "all" {
            found.push(namespaces::find(text)?);
            continue;
        }
        for namespace in &listed {
            match namespace.open() {
                Ok(ns) => found.push(ns),
                Err(error) => {
                    warnings.insert(error.to_string());
                }
            }
        }
    }
    for ns in found {
        let inode = ns.inode()?;
        if readers.iter().any(|reader| reader.inode() == inode) {
            continue;
        }
        match NamespaceReader::open(ns, name_of(inode)) {
            Ok(reader) => readers.push(reader),
            // Of all that there are, one may go while we look.
            Err(error) if named.iter().any(|text| text == "all") => {
                warnings.insert(format!("namespace {inode}: {error}"));
            }
            Err(error) => return Err(error).with_context(|| format!("follow namespace {inode}")),
        }
    }
    Ok(readers)
}
