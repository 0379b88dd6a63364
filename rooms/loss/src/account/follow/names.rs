//! Names of what was followed, for captures.

use super::Following;
use crate::samples::Names;

impl Names for Following {
    fn interface(&self, namespace: u32, index: u32) -> Option<String> {
        let namespace = self.namespaces.iter().find(|own| own.inode == namespace)?;
        namespace.interfaces.get(&index).cloned()
    }

    fn namespace(&self, inode: u32) -> String {
        let known = self.namespaces.iter().find(|own| own.inode == inode);
        match known.and_then(|own| own.name.as_deref()) {
            Some(name) => format!("namespace {name}"),
            None => format!("namespace {inode}"),
        }
    }

    fn socket(&self, cookie: u64) -> Option<String> {
        let known = self.sockets.values().map(|known| &known.socket);
        let socket = known.into_iter().find(|socket| socket.has_cookie && socket.cookie == cookie)?;
        let local = socket.local?;
        Some(match &socket.process {
            Some((pid, name)) => format!("{local} {name} ({pid})"),
            None => local.to_string(),
        })
    }
}
