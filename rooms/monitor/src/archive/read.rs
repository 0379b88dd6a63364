//! Reading an archive: block by block in the order in which they came, up to the end or to what is damaged.

use std::collections::HashMap;
use std::fs::{self, DirEntry, File};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use mcap::McapError;
use mcap::records::Record;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};

use super::head::Head;
use super::schema::{self, Message};

/// Why a file was not read to its end: what is before the damage has been read.
#[derive(Debug)]
pub struct Damage {
    /// In how many bytes of the file there is nothing wrong.
    pub whole_bytes: u64,
    /// What is wrong after them.
    pub error: String,
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

/// A file that is read a block at a time. Messages of channels that are not ours are passed over.
pub struct Reading<R> {
    source: R,
    reader: LinearReader,
    channels: HashMap<u16, Arc<Head>>,
    /// The number of our schema; 0: it was not met yet.
    ours: u16,
    /// Bytes in which there is nothing wrong, and those that were read.
    whole: u64,
    taken: u64,
    /// Why it ends where it does; `None`: that is its end, or it goes on.
    pub damage: Option<Damage>,
}

impl Reading<BufReader<File>> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what_is_in(path)?));
        }
        Ok(Self::new(BufReader::with_capacity(READ_BYTES, file), metadata.len()))
    }
}

impl<R: Read> Reading<R> {
    /// Begins to read so many bytes.
    pub fn new(source: R, length: u64) -> Self {
        let options = LinearReaderOptions::default()
            .with_prevalidate_chunk_crcs(true)
            .with_record_length_limit(usize::try_from(length).unwrap_or(usize::MAX).min(MOST_RECORD));
        let reader = LinearReader::new_with_options(options);
        Self { source, reader, channels: HashMap::new(), ours: 0, whole: 0, taken: 0, damage: None }
    }

    /// The next block, with what is known of its channel; `None`: the end, or damage.
    ///
    /// # Errors
    /// It cannot be read, or is not an MCAP file.
    pub fn read_block(&mut self) -> io::Result<Option<(Arc<Head>, Message)>> {
        let damage = loop {
            let Self { source, reader, channels, ours, whole, taken, .. } = self;
            let (opcode, data) = match reader.next_event() {
                None => return Ok(None),
                Some(Ok(LinearReadEvent::ReadRequest(need))) => {
                    let read = loop {
                        match source.read(reader.insert(need)) {
                            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                            other => break other?,
                        }
                    };
                    *taken += read as u64;
                    reader.notify_read(read);
                    continue;
                }
                Some(Ok(LinearReadEvent::Record { opcode, data })) => (opcode, data),
                Some(Err(McapError::BadMagic)) if *whole == 0 => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, NO_ARCHIVE));
                }
                Some(Err(McapError::UnexpectedEof)) => {
                    break "it ends in the middle: its recorder was killed, or is still writing".into();
                }
                Some(Err(error)) => break error.to_string(),
            };
            *whole = *taken;
            match mcap::parse_record(opcode, data) {
                Ok(Record::Schema { header, .. }) if header.name == schema::NAME && header.encoding == "protobuf" => {
                    *ours = header.id;
                }
                Ok(Record::Channel(channel)) if channel.schema_id == *ours && *ours != 0 => {
                    if let Some(head) = Head::from_map(&channel.metadata) {
                        channels.insert(channel.id, Arc::new(head));
                    }
                }
                Ok(Record::Message { header, data }) => {
                    let Some(head) = channels.get(&header.channel_id) else { continue };
                    match Message::read(&data) {
                        Ok(message) => return Ok(Some((head.clone(), message))),
                        Err(error) => break error.to_string(),
                    }
                }
                // A file that was closed in order has an index.
                Ok(Record::Footer(footer)) if footer.summary_start == 0 => {
                    break "it was not closed in order (its disk was full): later files have what came next, or none has".into();
                }
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        self.damage = Some(Damage { whole_bytes: self.whole, error: damage });
        Ok(None)
    }
}

const NO_ARCHIVE: &str = "not an MCAP file (name files that weir monitor record wrote)";

/// Read at once.
const READ_BYTES: usize = 1 << 20;

/// Longest record: chunks of others are a few MB, ours 4.
const MOST_RECORD: usize = 1 << 30;
