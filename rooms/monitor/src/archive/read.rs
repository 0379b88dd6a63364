//! Reading an archive: block by block in the order in which they came, up to the end or to what is damaged.

use std::collections::HashMap;
use std::fs::{self, DirEntry, File};
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use mcap::McapError;
use mcap::records::Record;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use weir_wire::signal::Block;

use super::head::Head;
use super::schema;

/// Why a file was not read to its end: what is in front of it has been read.
#[derive(Debug)]
pub struct Damage {
    /// In how many bytes of the file there is nothing wrong.
    pub whole_bytes: u64,
    /// What is wrong behind.
    pub error: String,
}

/// Reads a file, and has `look` see each block. Messages of channels that are not ours are passed over. `Some`: it is damaged, and was
/// read up to there; `None`: to its end, or `look` broke off.
///
/// # Errors
/// It cannot be opened, or is no MCAP file.
pub fn read(path: &Path, look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>) -> io::Result<Option<Damage>> {
    read_on(Reading::open(path)?, look)
}

/// Of a directory: which files to name in its place.
fn what_is_in(directory: &Path) -> io::Result<String> {
    let is_archive = |entry: io::Result<DirEntry>| {
        entry.is_ok_and(|entry| Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "mcap"))
    };
    Ok(if fs::read_dir(directory)?.any(is_archive) {
        format!("it is a directory (name the files in it: {}/*.mcap)", directory.display())
    } else {
        "it is a directory without an archive (name files that weir monitor record wrote)".to_owned()
    })
}

/// The same of so many bytes that are somewhere else.
pub(crate) fn read_from(
    source: impl Read,
    length: u64,
    look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>,
) -> io::Result<Option<Damage>> {
    read_on(Reading::new(source, length), look)
}

fn read_on(
    mut reading: Reading<impl Read>,
    mut look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>,
) -> io::Result<Option<Damage>> {
    loop {
        match reading.next(&mut look)? {
            Next::Block(ControlFlow::Continue(())) => {}
            Next::Block(ControlFlow::Break(())) => return Ok(None),
            Next::End(damage) => return Ok(damage),
        }
    }
}

/// A file that is read a block at a time.
pub(super) struct Reading<R> {
    source: R,
    reader: LinearReader,
    channels: HashMap<u16, Arc<Head>>,
    /// The number of our schema; 0: it was not met yet.
    ours: u16,
    /// Bytes in which there is nothing wrong, and those that were read.
    whole: u64,
    taken: u64,
}

/// What comes next.
pub(super) enum Next<T> {
    /// A block.
    Block(T),
    /// The end, or damage.
    End(Option<Damage>),
}

impl Reading<BufReader<File>> {
    /// Begins to read a file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what_is_in(path)?));
        }
        Ok(Self::new(BufReader::with_capacity(READ_BYTES, file), metadata.len()))
    }
}

impl<R: Read> Reading<R> {
    fn new(source: R, length: u64) -> Self {
        let options = LinearReaderOptions::default()
            .with_prevalidate_chunk_crcs(true)
            .with_record_length_limit(usize::try_from(length).unwrap_or(usize::MAX).min(MOST_RECORD));
        let reader = LinearReader::new_with_options(options);
        Self { source, reader, channels: HashMap::new(), ours: 0, whole: 0, taken: 0 }
    }

    /// Has `look` see the next block.
    pub(super) fn next<T>(&mut self, look: impl FnOnce(&Arc<Head>, &Block<'_>) -> T) -> io::Result<Next<T>> {
        let Self { source, reader, channels, ours, whole, taken } = self;
        let damage = |whole_bytes: u64, error: String| Ok(Next::End(Some(Damage { whole_bytes, error })));
        while let Some(event) = reader.next_event() {
            match event {
                Ok(LinearReadEvent::ReadRequest(need)) => {
                    let read = loop {
                        match source.read(reader.insert(need)) {
                            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                            other => break other?,
                        }
                    };
                    *taken += read as u64;
                    reader.notify_read(read);
                }
                Ok(LinearReadEvent::Record { opcode, data }) => {
                    *whole = *taken;
                    let record = match mcap::parse_record(opcode, data) {
                        Ok(record) => record,
                        Err(error) => return damage(*whole, error.to_string()),
                    };
                    match record {
                        Record::Schema { header, .. }
                            if header.name == schema::NAME && header.encoding == "protobuf" =>
                        {
                            *ours = header.id;
                        }
                        Record::Channel(channel) if channel.schema_id == *ours && *ours != 0 => {
                            if let Some(head) = Head::from_map(&channel.metadata) {
                                channels.insert(channel.id, Arc::new(head));
                            }
                        }
                        Record::Message { header, data } => {
                            let Some(head) = channels.get(&header.channel_id) else { continue };
                            match schema::read(&data) {
                                Ok(block) => {
                                    let block = Block { channel: head.channel.id, ..block };
                                    return Ok(Next::Block(look(head, &block)));
                                }
                                Err(error) => return damage(*whole, error.to_string()),
                            }
                        }
                        // Whoever closes a file in order writes an index.
                        Record::Footer(footer) if footer.summary_start == 0 => {
                            let error = "it was not closed in order (its disk was full): what came behind is in later files or in none";
                            return damage(*whole, error.into());
                        }
                        _ => {}
                    }
                }
                Err(McapError::BadMagic) if *whole == 0 => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, NO_ARCHIVE));
                }
                Err(McapError::UnexpectedEof) => {
                    return damage(*whole, "it ends in the middle: whoever wrote it did not come to its end".into());
                }
                Err(error) => return damage(*whole, error.to_string()),
            }
        }
        Ok(Next::End(None))
    }
}

const NO_ARCHIVE: &str = "no MCAP file (name files that weir monitor record wrote)";

/// Read at once.
const READ_BYTES: usize = 1 << 20;

/// Longest record: chunks of others are a few MB, ours 4.
const MOST_RECORD: usize = 1 << 30;
