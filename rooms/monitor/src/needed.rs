//! What a configuration names and this machine is to have: files, directories, interfaces, addresses. What is missing is one line with
//! its file, line and key.

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::net::if_::if_nametoindex;
use nix::unistd::{AccessFlags, faccessat};
use weir_kernel::capabilities::{User, as_user};
use weir_program::config::{Document, Step};

use crate::serve::settings::Keys;
use weir_signal::receive::Listen;
use weir_signal::seal::{GroupKey, KeyError, PublicKey};

/// Looks for what is named. `'f`: where it stands.
pub(crate) struct Needed<'f, 'd> {
    document: &'f Document<'d>,
    warnings: Vec<String>,
}

impl<'f, 'd> Needed<'f, 'd> {
    /// `document`: where it stands, in a file or in flags.
    pub(crate) fn new(document: &'f Document<'d>) -> Self {
        Self { document, warnings: Vec::new() }
    }

    /// What a start may still do without, a line each.
    pub(crate) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// An error about the value at `path`, which it names.
    pub(crate) fn error(&self, path: &[Step<'_>], message: impl Display) -> anyhow::Error {
        self.document.wrong(path, message)
    }

    fn warn(&mut self, path: &[Step<'_>], message: impl Display) {
        self.warnings.push(self.error(path, message).to_string());
    }

    /// A key that can be read.
    pub(crate) fn key<T>(
        &self,
        path: &[Step<'_>],
        file: Option<&Path>,
        read: impl FnOnce(&Path) -> Result<T, KeyError>,
    ) -> Result<()> {
        file.map(read).transpose().map(drop).map_err(|error| self.error(path, error))
    }

    /// What a receiver is given to open with, and to ask with.
    pub(crate) fn keys(&self, keys: &Keys) -> Result<()> {
        self.key(&[Step::Key("key")], keys.group.as_deref(), GroupKey::read)?;
        self.public_keys("senders", &keys.senders)
    }

    /// A list of public keys.
    pub(crate) fn public_keys(&self, key: &str, files: &[PathBuf]) -> Result<()> {
        let mut files = files.iter().enumerate();
        files.try_for_each(|(at, file)| {
            self.key(&[Step::Key(key), Step::Index(at)], Some(file.as_path()), PublicKey::read)
        })
    }

    /// An interface of this machine.
    pub(crate) fn interface(&self, path: &[Step<'_>], name: Option<&str>) -> Result<()> {
        match name.map(if_nametoindex) {
            Some(Err(_)) => {
                let name = name.unwrap_or_default();
                Err(self.error(path, format!("there is no interface {name} here (ip link lists those that there are)")))
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// What signals come in by.
    pub(crate) fn listen(&self, listen: &[Listen]) -> Result<()> {
        listen.iter().enumerate().try_for_each(|(at, listen)| {
            let path = |key| [Step::Key("listen"), Step::Index(at), Step::Key(key)];
            self.interface(&path("interface"), listen.interface.as_deref())?;
            self.datagrams(&path("address"), listen.address)
        })
    }

    /// An address of this machine to receive datagrams at. Whether its port is free now is not looked at: the service that this is for may
    /// run.
    pub(crate) fn datagrams(&self, path: &[Step<'_>], address: SocketAddr) -> Result<()> {
        if address.ip().is_multicast() {
            return Ok(());
        }
        self.address(path, address, UdpSocket::bind(SocketAddr::new(address.ip(), 0)).map(drop))
    }

    /// An address of this machine to serve at, likewise.
    pub(crate) fn server(&self, key: &str, address: SocketAddr) -> Result<()> {
        if address.ip().is_multicast() {
            return Err(
                self.error(&[Step::Key(key)], format!("{address} is a group (name an address of this machine)"))
            );
        }
        let bound = TcpListener::bind(SocketAddr::new(address.ip(), 0)).map(drop);
        self.address(&[Step::Key(key)], address, bound)
    }

    fn address(&self, path: &[Step<'_>], address: SocketAddr, bound: io::Result<()>) -> Result<()> {
        match bound {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                let message =
                    format!("{address} is no address of this machine (ip address lists those that there are)");
                Err(self.error(path, message))
            }
            // Whatever else is wrong now may be right at the start.
            _ => Ok(()),
        }
    }

    /// A directory that files can be made in. `user`: whom the service becomes before it makes any.
    pub(crate) fn directory(&mut self, path: &[Step<'_>], directory: &Path, user: Option<&str>) -> Result<()> {
        let shown = directory.display();
        let about = match fs::metadata(directory) {
            Err(error) => return Err(self.error(path, format!("{shown}: {error} (make it, or name another)"))),
            Ok(about) if !about.is_dir() => {
                return Err(self.error(path, format!("{shown} is no directory (name one)")));
            }
            Ok(about) => about,
        };
        let Some(name) = user else {
            // Another user may run the service.
            if may_fill(directory).is_err() {
                self.warn(path, format!("{shown}: this user cannot make files in it"));
            }
            return Ok(());
        };
        let user = User::find(name).map_err(|error| self.error(&[Step::Key("user")], error))?;
        // Who may become that user knows for certain; else the mode tells.
        let may = match as_user(&user, || may_fill(directory).is_ok()) {
            Ok(Some(may)) => may,
            Ok(None) | Err(_) => is_permitted(&about, &user),
        };
        match may {
            true => Ok(()),
            false => Err(self.error(
                path,
                format!("{shown}: user {name} cannot make files in it (chown or chmod it, or name another)"),
            )),
        }
    }
}

/// Whether whoever runs this now may make files in a directory. Whether there is room is another matter.
pub(crate) fn may_fill(directory: &Path) -> io::Result<()> {
    match faccessat(AT_FDCWD, directory, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS) {
        Err(refused @ (Errno::EACCES | Errno::EPERM)) => Err(refused.into()),
        _ => Ok(()),
    }
}

/// What the mode of a directory says of the same: whoever gives up root for a user has that user's own group alone.
fn is_permitted(about: &fs::Metadata, user: &User) -> bool {
    let shift = match () {
        () if user.uid() == 0 => return true,
        () if about.uid() == user.uid() => 6,
        () if about.gid() == user.gid() => 3,
        () => 0,
    };
    (about.mode() >> shift) & 0o3 == 0o3
}

/// Whether opening it would wait for somebody else.
pub(crate) fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TEXT: &str = "senders = [\n  \"a.pub\",\n  \"b.pub\",\n]\n[[listen]]\naddress = \"192.0.2.1:5110\"\n";

    #[test]
    fn what_is_missing_is_told_with_its_place() {
        let file = Document::parse("m.toml", TEXT).unwrap();
        let mut needed = Needed::new(&file);
        let folder = tempfile::TempDir::new().unwrap();
        let files = ["a.pub", "b.pub"].map(|name| folder.path().join(name));
        let (shown, text) = (files[1].display(), format!("weir-signal-public-key {}\n", "5f".repeat(32)));
        fs::write(&files[0], text).unwrap();
        let listen = |address: &str| [Listen::new(address.parse().unwrap())];
        let group = Listen { interface: Some("nowhere0".into()), ..Listen::new("239.1.1.1:7".parse().unwrap()) };
        let directory = [Step::Key("directory")];
        for (found, line) in [
            (
                needed.public_keys("senders", &files),
                format!("m.toml:3: senders: key {shown}: No such file or directory (os error 2)"),
            ),
            (
                needed.listen(&listen("192.0.2.1:5110")),
                "m.toml:6: listen.address: 192.0.2.1:5110 is no address of this machine (ip address lists those that there are)".into(),
            ),
            (
                needed.listen(&[group]),
                "m.toml:5: listen.interface: there is no interface nowhere0 here (ip link lists those that there are)".into(),
            ),
            (
                needed.directory(&directory, &files[1], None),
                format!("m.toml: directory: {shown}: No such file or directory (os error 2) (make it, or name another)"),
            ),
            (
                needed.directory(&directory, &files[0], Some("0")),
                format!("m.toml: directory: {} is no directory (name one)", files[0].display()),
            ),
        ] {
            assert_eq!(found.unwrap_err().to_string(), line);
        }
        let group = needed.server("admin", "239.1.1.1:7".parse().unwrap()).unwrap_err();
        assert_eq!(group.to_string(), "m.toml: admin: 239.1.1.1:7 is a group (name an address of this machine)");
        needed.listen(&listen("127.0.0.1:5110")).unwrap();
        needed.interface(&[Step::Key("interface")], Some("lo")).unwrap();
        needed.directory(&directory, folder.path(), None).unwrap();
        assert_eq!(needed.into_warnings(), [""; 0]);
    }

    /// Whoever runs this may write there: it is the user of the file who counts.
    #[test]
    fn a_directory_is_looked_at_as_its_user() {
        let folder = tempfile::TempDir::new().unwrap();
        let (shown, about) = (folder.path().display(), fs::metadata(folder.path()).unwrap());
        let (own, group) = (format!("{}:4000001", about.uid()), format!("4000001:{}", about.gid()));
        let look = |mode: u32, user: &str| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let found =
                Needed::new(&Document::default()).directory(&[Step::Key("directory")], folder.path(), Some(user));
            found.map_err(|error| error.to_string())
        };
        let refused = |user: &str| -> Result<(), String> {
            Err(format!("directory: {shown}: user {user} cannot make files in it (chown or chmod it, or name another)"))
        };
        assert_eq!(look(0o755, "4000001:4000001"), refused("4000001:4000001"));
        assert_eq!(look(0o755, &own), Ok(()));
        assert_eq!(look(0o755, &group), refused(&group));
        assert_eq!(look(0o775, &group), Ok(()));
        assert_eq!(look(0o777, "4000001:4000001"), Ok(()));
        let unknown = look(0o777, "no-such-user").unwrap_err();
        assert!(unknown.starts_with("user: look up user no-such-user: "), "{unknown}");
    }
}
