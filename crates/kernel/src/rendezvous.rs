//! Processes of the same user find each other by the path of a socket, ask, and get an answer with file descriptors.
//!
//! A [`Rendezvous`] listens on a Unix socket in a folder that is [the user's own](own_folder), where nobody else can be
//! first. Whoever holds the lock beside it is the server; what one that was killed has left is replaced. The connection
//! stays open after the answer: it is the client's lease, and the server knows how many there are, however clients end.
//!
//! ```text
//! client: <request> LF            at most 4 KiB
//! server: <text> NUL              with the descriptors (SCM_RIGHTS); then nothing until either side closes
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt};
use nix::unistd::geteuid;

use crate::error::During;
use crate::{Error, sys};

/// What a server says.
#[derive(Debug, Default)]
pub struct Answer {
    /// Words, without NUL, at most 4 MiB.
    pub text: String,
    /// Descriptors that become the client's; at most 16.
    pub descriptors: Vec<OwnedFd>,
}

/// What a client hears.
#[derive(Debug)]
pub struct Reply {
    /// The server's words.
    pub text: String,
    /// The client's own descriptors, in the server's order.
    pub descriptors: Vec<OwnedFd>,
    /// The server counts us until this is dropped.
    pub lease: Lease,
}

/// A client's connection.
#[derive(Debug)]
pub struct Lease {
    _connection: UnixStream,
}

/// A server that answers in the background until it is dropped.
#[derive(Debug)]
pub struct Rendezvous {
    clients: Arc<Clients>,
    /// Closing it stops the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    /// Held as long as the socket is ours.
    _lock: File,
}

#[derive(Debug, Default)]
struct Clients {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Rendezvous {
    /// Offers answers at `path` to processes of the same user; `answer` runs on the server's thread, one request at a
    /// time, and should be quick. Beside the socket there is a file `path.lock`; both go with the server.
    ///
    /// # Errors
    /// [`Error::errno`] is EADDRINUSE where somebody offers something there already.
    pub fn offer(
        path: &Path,
        answer: impl Fn(&str) -> Result<Answer, Error> + Send + 'static,
    ) -> Result<Rendezvous, Error> {
        let operation = || format!("offer {} to other processes", path.display());
        let lock = lock(&lock_of(path)).during(operation)?;
        // Whoever made it held the lock, and has ended.
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).during(operation)?;
        listener.set_nonblocking(true).during(operation)?;
        let (stop, stopped) = UnixStream::pair().during(operation)?;
        let clients = Arc::new(Clients::default());
        let mut server = Server { listener, stopped, leases: Vec::new(), clients: clients.clone(), answer };
        let thread = thread::Builder::new().name("rendezvous".into()).spawn(move || server.run()).during(operation)?;
        Ok(Rendezvous { clients, stop: Some(stop), thread: Some(thread), path: path.to_owned(), _lock: lock })
    }

    /// How many clients have had an answer and are still there.
    pub fn clients(&self) -> usize {
        *self.clients.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last client has gone; at once if there is none.
    pub fn wait_until_unused(&self) {
        let count = self.clients.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.clients.changed.wait_while(count, |count| *count > 0));
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // While the lock is held: whoever has opened it already finds that it is gone, and makes another.
        let _ = fs::remove_file(lock_of(&self.path));
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks who offers answers at `path`. `None`: nobody does.
///
/// # Errors
/// If the server is another user's, refuses, or ends before it answers.
pub fn ask(path: &Path, request: &str) -> Result<Option<Reply>, Error> {
    let operation = || format!("ask {} for {request:?}", path.display());
    let mut connection = match UnixStream::connect(path) {
        Ok(connection) => connection,
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            return Ok(None);
        }
        Err(error) => return Err(error).during(operation),
    };
    if !is_same_user(&connection) {
        return Err(Error::answer(operation(), "it belongs to another user"));
    }
    connection.set_read_timeout(Some(PATIENCE)).during(operation)?;
    connection.write_all(format!("{request}\n").as_bytes()).during(operation)?;
    let (text, descriptors) = receive(&mut connection).during(operation)?;
    match text.strip_prefix(REFUSED) {
        Some(reason) => Err(Error::answer(operation(), reason)),
        None => Ok(Some(Reply { text, descriptors, lease: Lease { _connection: connection } })),
    }
}

/// A folder of this name that nobody but the user (and root) can reach into, made where it is not there: below
/// XDG_RUNTIME_DIR, if that is the user's own; else below /run, where the user is root; else in the folder for temporary
/// files, the user's number behind its name. The same for all processes of a user with the same environment, in a user
/// namespace of its own, too.
///
/// # Errors
/// None of them can be had: somebody else's is in the way.
pub fn own_folder(name: &str) -> Result<PathBuf, Error> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|runtime| runtime.is_absolute());
    let runtime = runtime.filter(|runtime| fs::metadata(runtime).is_ok_and(|found| found.uid() == geteuid().as_raw()));
    let run = geteuid().is_root().then(|| PathBuf::from("/run"));
    for parent in runtime.into_iter().chain(run) {
        let folder = parent.join(name);
        if make_own(&folder).is_ok() {
            return Ok(folder);
        }
    }
    let folder = std::env::temp_dir().join(format!("{name}-{}", outer_user()));
    match make_own(&folder) {
        Ok(()) => Ok(folder),
        Err(reason) => {
            let detail = format!("{reason}: set XDG_RUNTIME_DIR to a folder that is your own");
            Err(Error::answer(format!("use the folder {}", folder.display()), detail))
        }
    }
}

/// Makes a folder, or finds that it is there and the user's own.
fn make_own(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    match (found.is_dir(), found.uid() == geteuid().as_raw(), found.mode() & 0o077) {
        (true, true, 0) => Ok(()),
        (true, true, _) => Err(io::Error::other("others may reach into it (chmod 700)")),
        _ => Err(io::Error::other("it is another user's, or no folder")),
    }
}

/// The user's number outside of the user namespace that the process is in (user_namespaces(7)).
fn outer_user() -> u64 {
    let user = u64::from(geteuid().as_raw());
    let outside = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let &[inside, outside, count] = numbers.as_slice() else { return None };
        user.checked_sub(inside).filter(|place| *place < count).map(|place| outside + place)
    };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().find_map(outside).unwrap_or(user)
}

/// Takes the lock at `path`; EADDRINUSE where somebody has it. What a server that ends takes away between our opening and
/// locking it keeps out nobody else: then the file there is another one, or none.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let lock = File::options().create(true).truncate(false).write(true).open(path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let ours = lock.metadata()?;
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok(lock),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

fn lock_of(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

struct Server<F> {
    listener: UnixListener,
    stopped: UnixStream,
    leases: Vec<UnixStream>,
    clients: Arc<Clients>,
    answer: F,
}

impl<F: Fn(&str) -> Result<Answer, Error>> Server<F> {
    fn run(&mut self) {
        loop {
            let sources = [self.stopped.as_fd(), self.listener.as_fd()].into_iter();
            let sources = sources.chain(self.leases.iter().map(AsFd::as_fd));
            let mut events: Vec<_> = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut events, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                Err(_) => break,
                Ok(_) => {}
            }
            let ready: Vec<bool> = events.iter().map(|event| event.any().unwrap_or(true)).collect();
            drop(events);
            if ready[0] {
                break;
            }
            // A client has nothing more to say: whatever comes, it is its end.
            let mut of_lease = ready[2..].iter();
            self.leases.retain(|_| !of_lease.next().is_some_and(|ready| *ready));
            if ready[1]
                && let Ok((connection, _)) = self.listener.accept()
                && self.serve(&connection).is_ok()
            {
                self.leases.push(connection);
            }
            self.publish();
        }
        self.leases.clear();
        self.publish();
    }

    fn serve(&self, connection: &UnixStream) -> io::Result<()> {
        connection.set_nonblocking(false)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        if !is_same_user(connection) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut request = String::new();
        BufReader::new(connection.take(LONGEST_REQUEST)).read_line(&mut request)?;
        let Some(request) = request.strip_suffix('\n') else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match (self.answer)(request) {
            Ok(answer) => {
                // Counted before it can know, so that a client that has an answer is always counted.
                self.set_count(self.leases.len() + 1);
                send(connection, &answer.text, &answer.descriptors)
            }
            Err(error) => {
                send(connection, &format!("{REFUSED}{error}"), &[])?;
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }

    fn publish(&self) {
        self.set_count(self.leases.len());
    }

    fn set_count(&self, count: usize) {
        *self.clients.count.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.clients.changed.notify_all();
    }
}

/// Whether the other process runs as our user, as seen from our user namespace: whoever has no number there, has not.
fn is_same_user(connection: &UnixStream) -> bool {
    getsockopt(connection, sockopt::PeerCredentials).is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

fn send(mut connection: &UnixStream, text: &str, descriptors: &[OwnedFd]) -> io::Result<()> {
    let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &[][..] } else { &rights };
    let bytes = [text.as_bytes(), &[END]].concat();
    // The descriptors travel with the first bytes.
    let sent = sendmsg::<()>(connection.as_raw_fd(), &[IoSlice::new(&bytes)], control, MsgFlags::MSG_NOSIGNAL, None)?;
    connection.write_all(&bytes[sent..])
}

fn receive(connection: &mut UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut control = cmsg_space!([i32; MOST_DESCRIPTORS]);
    let mut first = vec![0; 4096];
    let mut descriptors = Vec::new();
    let length = {
        let mut slices = [IoSliceMut::new(&mut first)];
        let number = connection.as_raw_fd();
        let message = recvmsg::<()>(number, &mut slices, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = part {
                descriptors.extend(numbers.into_iter().map(sys::received_descriptor));
            }
        }
        message.bytes
    };
    first.truncate(length);
    if first.last() != Some(&END) {
        BufReader::new(connection.take(LONGEST_ANSWER)).read_until(END, &mut first)?;
    }
    if first.pop() != Some(END) {
        return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
    }
    let text = String::from_utf8(first).map_err(|_| io::Error::from_raw_os_error(libc::EPROTO))?;
    Ok((text, descriptors))
}

/// How long either side waits for the other's words.
const PATIENCE: Duration = Duration::from_secs(5);

const LONGEST_REQUEST: u64 = 4096;
const LONGEST_ANSWER: u64 = 4 << 20;
const MOST_DESCRIPTORS: usize = 16;

/// Ends an answer.
const END: u8 = 0;

/// Begins an answer that is a refusal; no text of ours begins so.
const REFUSED: &str = "\u{15}";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::{Command, Stdio};

    use nix::sys::stat::{Mode, SFlag, mknod};
    use tempfile::TempDir;

    use super::*;

    /// A folder, and the path of a socket in it.
    fn place() -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        (folder, path)
    }

    fn echo(request: &str) -> Result<Answer, Error> {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        File::from(writer).write_all(request.as_bytes()).unwrap();
        Ok(Answer { text: request.to_uppercase(), descriptors: vec![reader] })
    }

    #[test]
    fn an_answer_brings_descriptors_and_a_lease() {
        let (_folder, path) = place();
        assert!(ask(&path, "too early").unwrap().is_none());
        let server = Rendezvous::offer(&path, echo).unwrap();
        server.wait_until_unused();

        let mut reply = ask(&path, "h1").unwrap().unwrap();
        assert_eq!((reply.text.as_str(), reply.descriptors.len()), ("H1", 1));
        let mut through_pipe = String::new();
        File::from(reply.descriptors.remove(0)).read_to_string(&mut through_pipe).unwrap();
        assert_eq!(through_pipe, "h1");
        let second = ask(&path, "h2").unwrap().unwrap();
        assert_eq!(server.clients(), 2);
        drop((reply, second));
        server.wait_until_unused();
        assert_eq!(server.clients(), 0);

        drop(server);
        assert!(ask(&path, "too late").unwrap().is_none());
    }

    #[test]
    fn long_answers_arrive_whole() {
        let (_folder, path) = place();
        let text = "0123456789".repeat(6_000);
        let sent = text.clone();
        let _server =
            Rendezvous::offer(&path, move |_| Ok(Answer { text: sent.clone(), descriptors: Vec::new() })).unwrap();
        assert_eq!(ask(&path, "all").unwrap().unwrap().text, text);
    }

    #[test]
    fn a_refusal_says_why_and_is_no_lease() {
        let (_folder, path) = place();
        let server = Rendezvous::offer(&path, |_| Err(Error::answer("find host h9", "there are h1, h2"))).unwrap();
        let refusal = ask(&path, "h9").unwrap_err();
        assert_eq!(refusal.to_string(), format!("ask {} for \"h9\": find host h9: there are h1, h2", path.display()));
        server.wait_until_unused();
        let taken = Rendezvous::offer(&path, echo).unwrap_err();
        assert_eq!(taken.errno(), Some(Errno::EADDRINUSE));
    }

    #[test]
    fn a_killed_client_gives_up_its_lease() {
        let (_folder, path) = place();
        let server = Rendezvous::offer(&path, echo).unwrap();
        let reply = ask(&path, "h1").unwrap().unwrap();
        // The child is the only one to hold the lease.
        let connection = OwnedFd::from(reply.lease._connection);
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::from(connection)).spawn().unwrap();
        assert_eq!(server.clients(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        server.wait_until_unused();
    }

    #[test]
    fn another_user_is_refused() {
        let users = fs::read_to_string("/proc/self/uid_map").unwrap();
        if !geteuid().is_root() || users.split_whitespace().nth(2) == Some("1") {
            return weir_testbed::skip("only root can play another user");
        }
        let (folder, path) = place();
        let server = Rendezvous::offer(&path, echo).unwrap();
        for open in [folder.path(), &path] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
        }
        // The server cannot tell this process from one that another user connected and handed to us.
        let stranger = thread::spawn(move || {
            sys::tests::become_user_on_this_thread(65534);
            UnixStream::connect(&path).unwrap()
        });
        let mut connection = stranger.join().unwrap();
        // The server has hung up without a word.
        assert!(receive(&mut connection).is_err());
        assert_eq!(server.clients(), 0);
    }

    #[test]
    fn what_a_killed_server_has_left_is_replaced() {
        let (_folder, path) = place();
        // Had somebody listened, a child of another test that is about to execute its program might hold it still.
        mknod(&path, SFlag::S_IFSOCK, Mode::S_IRUSR | Mode::S_IWUSR, 0).unwrap();
        assert!(ask(&path, "anybody").unwrap().is_none());
        let server = Rendezvous::offer(&path, echo).unwrap();
        assert_eq!(ask(&path, "h1").unwrap().unwrap().text, "H1");
        drop(server);
        assert!(!path.exists() && !lock_of(&path).exists());
    }

    /// Servers that come and go at once: there is never more than one, and nothing stays.
    #[test]
    fn a_lock_that_goes_with_its_server_keeps_others_out() {
        let (folder, path) = place();
        let offering = Mutex::new(());
        let turns = |_| {
            for _ in 0..50 {
                match Rendezvous::offer(&path, echo) {
                    Ok(server) => {
                        let alone = offering.try_lock().expect("two servers at once");
                        thread::yield_now();
                        drop(alone);
                        drop(server);
                    }
                    Err(error) => assert_eq!(error.errno(), Some(Errno::EADDRINUSE), "{error}"),
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || turns(number)))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_can_reach_is_not_the_users_own() {
        let (folder, path) = place();
        make_own(&path).unwrap();
        make_own(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(make_own(&link).unwrap_err().to_string().starts_with("it is another user's, or no folder"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make_own(&path).unwrap_err().to_string().contains("others may reach into it"));
    }
}
