//! The times of single messages, as CSV or Apache Parquet.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::store::{self, StoreError};

/// A message. Times are ns of CLOCK_MONOTONIC: those of sending of the sender's machine, that of receiving of the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender, or where that is not known its receiver.
    pub peer: SocketAddr,
    /// The sender's session.
    pub session: u16,
    /// What the sender drew at its start; 0: unknown.
    pub incarnation: u32,
    /// Its number, from 0.
    pub number: u64,
    /// When it was due; `None`: unknown, messages below 40 bytes do not tell.
    pub intended: Option<u64>,
    /// When it was sent; `None`: unknown.
    pub sent: Option<u64>,
    /// When it was received; `None`: it was not, or nobody knows.
    pub received: Option<u64>,
}

/// A file that takes messages.
pub struct MessageTable {
    output: Output,
    path: std::path::PathBuf,
    /// Messages that it was given.
    given: u64,
}

enum Output {
    Csv(Lines),
    /// The file, and the rows that wait. `None`: it has ended.
    Parquet(Option<Box<SerializedFileWriter<BufWriter<File>>>>, Vec<Message>),
    /// It cannot be written any more, and has so many of the messages.
    Broken(u64),
}

/// A file of whole lines: one that is written in part is taken back.
struct Lines {
    file: File,
    waiting: Vec<u8>,
    /// Messages that wait.
    rows: u64,
    /// Messages, and all bytes, in the file.
    written: u64,
    bytes: u64,
}

impl MessageTable {
    /// Fills a file that was made at `path`: with Parquet if its name ends in `.parquet`, otherwise with CSV.
    ///
    /// # Errors
    /// It could not be made.
    pub fn create(path: &Path, file: io::Result<File>) -> Result<Self, StoreError> {
        let fail = |error| StoreError::new("create", path, error);
        let file = file.map_err(fail)?;
        let output = if path.extension().is_some_and(|extension| extension == "parquet") {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            let made = parse_message_type(SCHEMA).and_then(|schema| {
                let file = BufWriter::with_capacity(BUFFER, file);
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            });
            Output::Parquet(Some(Box::new(made.map_err(cause).map_err(fail)?)), Vec::new())
        } else {
            Output::Csv(Lines { file, waiting: HEAD.as_bytes().to_vec(), rows: 0, written: 0, bytes: 0 })
        };
        Ok(Self { output, path: path.to_owned(), given: 0 })
    }

    /// The same in the directory of a result, in place of an earlier one: a link of that name is not followed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of_result(path: &Path) -> Result<Self, StoreError> {
        Self::create(path, store::fresh(path))
    }

    /// Adds messages. Once it has failed it takes no more, and only counts them.
    ///
    /// # Errors
    /// They cannot be written: said once.
    pub fn write(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        self.given += messages.len() as u64;
        let written = match &mut self.output {
            Output::Csv(lines) => messages.iter().try_for_each(|message| lines.add(message)),
            Output::Parquet(Some(file), waiting) => {
                waiting.extend_from_slice(messages);
                if waiting.len() >= GROUP_ROWS { group(file, waiting).map_err(cause) } else { Ok(()) }
            }
            Output::Parquet(None, _) | Output::Broken(_) => Ok(()),
        };
        self.judge(written)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The rest cannot be written.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let written = match &mut self.output {
            Output::Csv(lines) => lines.flush(),
            Output::Parquet(file, waiting) => match file.take() {
                Some(mut file) => group(&mut file, waiting).and_then(|()| file.close()).map(drop).map_err(cause),
                None => Ok(()),
            },
            Output::Broken(_) => Ok(()),
        };
        self.judge(written)
    }

    /// Messages that it was given and that are not in the file, once it has [ended](Self::finish).
    pub fn not_written(&self) -> u64 {
        let written = match &self.output {
            Output::Csv(lines) => lines.written,
            // Without its end it cannot be read at all.
            Output::Parquet(Some(_), _) => 0,
            Output::Parquet(None, _) => self.given,
            Output::Broken(written) => *written,
        };
        self.given - written
    }

    fn judge(&mut self, written: io::Result<()>) -> Result<(), StoreError> {
        written.map_err(|error| {
            let kept = if let Output::Csv(lines) = &self.output { lines.written } else { 0 };
            self.output = Output::Broken(kept);
            StoreError::new("write", &self.path, error)
        })
    }
}

impl Lines {
    fn add(&mut self, message: &Message) -> io::Result<()> {
        row(&mut self.waiting, message)?;
        self.rows += 1;
        if self.waiting.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes what waits, or as many whole lines of it as there is room for.
    fn flush(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.waiting.len() {
            match self.file.write(&self.waiting[done..]) {
                Ok(0) => return self.take_back(done, io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.take_back(done, error),
            }
        }
        self.bytes += done as u64;
        self.written += self.rows;
        self.rows = 0;
        self.waiting.clear();
        Ok(())
    }

    /// So many bytes of what waits could be written.
    fn take_back(&mut self, done: usize, error: io::Error) -> io::Result<()> {
        let ends = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let whole = self.waiting[..done].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        // The head, if it waits, is a line, too.
        let heads = ends(&self.waiting) - self.rows;
        self.written += ends(&self.waiting[..whole]).saturating_sub(heads);
        // What is no plain file cannot be cut; its reader has had the rest.
        let _ = self.file.set_len(self.bytes + whole as u64);
        Err(error)
    }
}

/// The kernel's answer, which Parquet's own errors wrap.
fn cause(error: parquet::errors::ParquetError) -> io::Error {
    match error {
        parquet::errors::ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

fn row(file: &mut impl Write, message: &Message) -> io::Result<()> {
    let Message { peer, session, incarnation, number, .. } = message;
    write!(file, "{peer},{session},{incarnation},{number}")?;
    for time in [message.intended, message.sent, message.received] {
        match time {
            Some(time) => write!(file, ",{time}")?,
            None => file.write_all(b",")?,
        }
    }
    file.write_all(b"\n")
}

fn group<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &mut Vec<Message>) -> parquet::errors::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = file.next_row_group()?;
    let peers: Vec<ByteArray> = rows.iter().map(|row| row.peer.to_string().as_str().into()).collect();
    required::<ByteArrayType, _>(&mut group, &peers)?;
    required::<Int32Type, _>(&mut group, &rows.iter().map(|row| row.session.into()).collect::<Vec<i32>>())?;
    required::<Int64Type, _>(&mut group, &rows.iter().map(|row| row.incarnation.into()).collect::<Vec<i64>>())?;
    required::<Int64Type, _>(&mut group, &rows.iter().map(|row| row.number.cast_signed()).collect::<Vec<i64>>())?;
    optional(&mut group, rows.iter().map(|row| row.intended))?;
    optional(&mut group, rows.iter().map(|row| row.sent))?;
    optional(&mut group, rows.iter().map(|row| row.received))?;
    rows.clear();
    group.close().map(drop)
}

fn required<D: DataType<T = T>, T>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T],
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<D>().write_batch(values, None, None)?;
    column.close()
}

fn optional(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    times: impl Iterator<Item = Option<u64>> + Clone,
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels: Vec<i16> = times.clone().map(|time| i16::from(time.is_some())).collect();
    let values: Vec<i64> = times.flatten().map(u64::cast_signed).collect();
    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

const HEAD: &str = "peer,session,incarnation,number,intended_ns,sent_ns,received_ns\n";

const SCHEMA: &str = "message messages {
    REQUIRED BYTE_ARRAY peer (STRING);
    REQUIRED INT32 session;
    REQUIRED INT64 incarnation;
    REQUIRED INT64 number;
    OPTIONAL INT64 intended_ns;
    OPTIONAL INT64 sent_ns;
    OPTIONAL INT64 received_ns;
}";

/// Rows that are read together, and held in memory until they are written.
const GROUP_ROWS: usize = 250_000;

const BUFFER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    fn message(number: u64, received: Option<u64>) -> Message {
        let peer = "[::1]:7".parse().unwrap();
        Message { peer, session: 9, incarnation: u32::MAX, number, intended: None, sent: Some(number * 10), received }
    }

    #[test]
    fn csv_and_parquet_have_the_same_rows() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, parquet) = (dir.path().join("m.csv"), dir.path().join("m.parquet"));
        for path in [&csv, &parquet] {
            let mut table = MessageTable::create(path, File::create(path)).unwrap();
            table.write(&[message(0, Some(15)), message(1, None)]).unwrap();
            table.write(&[message(2, Some(29))]).unwrap();
            table.finish().unwrap();
        }
        let rows = "[::1]:7,9,4294967295,0,,0,15\n[::1]:7,9,4294967295,1,,10,\n[::1]:7,9,4294967295,2,,20,29\n";
        assert_eq!(std::fs::read_to_string(&csv).unwrap(), format!("{HEAD}{rows}"));
        let reader = SerializedFileReader::new(File::open(&parquet).unwrap()).unwrap();
        let read: Vec<String> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                let row = row.unwrap();
                let time = |column| row.get_long(column).map_or(String::new(), |time| time.to_string());
                let (peer, session) = (row.get_string(0).unwrap(), row.get_int(1).unwrap());
                let (run, number) = (row.get_long(2).unwrap(), row.get_long(3).unwrap());
                format!("{peer},{session},{run},{number},{},{},{}\n", time(4), time(5), time(6))
            })
            .collect();
        assert_eq!(read.concat(), rows);
    }

    #[test]
    fn a_full_disk_is_said_once_and_what_is_missing_is_counted() {
        for name in ["/dev/full", "full.parquet"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            if name.ends_with("parquet") {
                std::os::unix::fs::symlink("/dev/full", &path).unwrap();
            }
            let mut table = MessageTable::create(&path, File::create(&path)).unwrap();
            let many: Vec<Message> = (0..100_000).map(|number| message(number, None)).collect();
            let failures = (0..3).filter(|_| table.write(&many).is_err()).count();
            let ended = table.finish();
            assert_eq!(failures + usize::from(ended.is_err()), 1, "{name}");
            assert_eq!(table.not_written(), 300_000, "{name}");
        }
    }

    #[test]
    fn a_line_that_was_written_in_part_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.csv");
        let mut table = MessageTable::create(&path, File::create(&path)).unwrap();
        table.write(&[message(0, Some(15)), message(1, None)]).unwrap();
        let Output::Csv(lines) = &mut table.output else { panic!("no CSV") };
        // As if the disk had taken all but the last ten bytes.
        let done = lines.waiting.len() - 10;
        let waiting = lines.waiting.clone();
        lines.file.write_all(&waiting[..done]).unwrap();
        assert!(lines.take_back(done, io::ErrorKind::StorageFull.into()).is_err());
        assert_eq!(table.not_written(), 1);
        let told = std::fs::read_to_string(&path).unwrap();
        assert_eq!(told, format!("{HEAD}[::1]:7,9,4294967295,0,,0,15\n"));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = MessageTable::of_result(Path::new("/nowhere/m.csv")).err().unwrap().to_string();
        assert!(error.starts_with("create /nowhere/m.csv: No such file"), "{error}");
    }
}
