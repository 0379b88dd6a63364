//! One file of an archive: MCAP, in chunks.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcap::records::MessageHeader;
use mcap::{McapError, McapResult, WriteOptions, Writer};
use weir_wire::signal::Block;

use super::head::Head;
use super::schema::{self, Message};

/// A file that is being written.
pub(super) struct ArchiveFile {
    pub(super) path: PathBuf,
    writer: Writer<Output>,
    schema: u16,
    /// By session and number: what is known of the channel, its id in the file, and messages so far.
    ids: HashMap<(u64, u16), (Arc<Head>, u16, u32)>,
    /// Bytes on their way to the disk, as far as chunks are whole.
    written: Arc<AtomicU64>,
    /// Bytes of the chunk that is being filled.
    filled: usize,
    message: Vec<u8>,
    file: Arc<File>,
}

impl ArchiveFile {
    /// Makes a file that was not there: what is there, a link included, is another's.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?);
        let written = Arc::new(AtomicU64::new(0));
        let output = Output { file: file.clone(), position: 0, whole: written.clone() };
        let begun = Self::begin(output).map_err(io_error);
        let (writer, schema) = begun.inspect_err(|_| {
            // Nothing is in it.
            let _ = std::fs::remove_file(path);
        })?;
        let ids = HashMap::new();
        Ok(Self { path: path.to_owned(), writer, schema, ids, written, filled: 0, message: Vec::new(), file })
    }

    fn begin(output: Output) -> McapResult<(Writer<Output>, u16)> {
        let options = WriteOptions::new()
            .compression(None)
            .library(concat!("weir ", env!("CARGO_PKG_VERSION")))
            // Chunks end where we say, and are written in one go.
            .chunk_size(None)
            .disable_seeking(true)
            // Chunks have theirs.
            .calculate_data_section_crc(false);
        let mut writer = options.create(output)?;
        let schema = writer.add_schema(schema::NAME, "protobuf", &schema::descriptor())?;
        writer.flush()?;
        Ok((writer, schema))
    }

    /// Adds a block of a channel to the chunk, and before it what is known of the channel, where the file does not have that.
    pub(super) fn block(&mut self, head: &Arc<Head>, block: &Block<'_>) -> McapResult<()> {
        let key = (head.session, head.channel.id);
        if !self.ids.get(&key).is_some_and(|(known, ..)| Arc::ptr_eq(known, head)) {
            let id = self.writer.add_channel(self.schema, &head.topic(), "protobuf", &head.to_map())?;
            self.ids.insert(key, (head.clone(), id, 0));
            self.filled += CHANNEL_BYTES;
        }
        let Some((_, channel_id, count)) = self.ids.get_mut(&key) else { return Ok(()) };
        self.message.clear();
        Message::new(block, (head.channel.scale, head.channel.offset)).write(&mut self.message);
        // Times before 1970 are a clock that was never set.
        let time = u64::try_from(block.time).unwrap_or(0);
        let header = MessageHeader { channel_id: *channel_id, sequence: *count, log_time: time, publish_time: time };
        *count = count.wrapping_add(1);
        self.filled += self.message.len() + MESSAGE_BYTES;
        self.writer.write_to_known_channel(&header, &self.message)
    }

    /// Whether its name was removed: what is written to it is gone with the recorder.
    pub(super) fn is_deleted(&self) -> bool {
        // Some file systems know no links, and report none of any file.
        self.file.metadata().is_ok_and(|about| about.nlink() == 0) && !self.path.exists()
    }

    /// Bytes of the chunk that is being filled.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes of whole chunks.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Ends the chunk: from now on it is in the file, whatever becomes of the recorder.
    pub(super) fn end_chunk(&mut self) -> McapResult<()> {
        self.filled = 0;
        self.writer.flush()
    }

    /// To be synchronized with the disk.
    pub(super) fn handle(&self) -> Arc<File> {
        self.file.clone()
    }

    /// Ends it with its index; returns its bytes.
    pub(super) fn finish(mut self) -> McapResult<u64> {
        self.writer.finish()?;
        Ok(self.writer.into_inner().position)
    }

    /// Ends it after its last whole chunk, without an index: what was begun after that cannot be written.
    pub(super) fn break_off(self) -> io::Result<u64> {
        let whole = self.written();
        let output = self.writer.into_inner();
        output.file.set_len(whole)?;
        let mut file: &File = &output.file;
        file.seek(SeekFrom::Start(whole))?;
        file.write_all(&tail())?;
        Ok(whole)
    }
}

/// Data end, footer without summary, magic (MCAP 0: Data End 0x0F, Footer 0x02).
fn tail() -> Vec<u8> {
    let mut bytes = vec![0x0f];
    bytes.extend(4_u64.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.push(0x02);
    bytes.extend(20_u64.to_le_bytes());
    bytes.extend([0; 20]);
    bytes.extend(mcap::MAGIC);
    bytes
}

/// The kernel's answer where it was one.
pub(super) fn io_error(error: McapError) -> io::Error {
    match error {
        McapError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The file, and how much of it is whole chunks.
struct Output {
    file: Arc<File>,
    position: u64,
    whole: Arc<AtomicU64>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = (&*self.file).write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    /// Called at the end of a chunk.
    fn flush(&mut self) -> io::Result<()> {
        self.whole.store(self.position, Ordering::Relaxed);
        Ok(())
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = (&*self.file).seek(to)?;
        Ok(self.position)
    }
}

impl Head {
    /// By which viewers of files list it: `/station/stream/channel`.
    fn topic(&self) -> String {
        format!("/{}/{}/{}", self.origin(), self.stream, self.channel.name)
    }
}

/// What the head of a message takes in a chunk, and its entry in the index.
const MESSAGE_BYTES: usize = 31 + 16;

/// About what a channel takes.
const CHANNEL_BYTES: usize = 600;

/// What channels say of themselves.
pub(super) type Map = BTreeMap<String, String>;
