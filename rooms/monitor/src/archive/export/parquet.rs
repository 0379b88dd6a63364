//! Apache Parquet: texts as dictionaries, values in groups of rows.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{Row, Table};
use crate::archive::Head;

pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    /// The rows of the next group, column by column; texts by their number.
    columns: Columns,
    head: Option<Arc<Head>>,
    /// Of the head: station, stream, channel, unit, session.
    texts: [ByteArray; 5],
    server: Option<ByteArray>,
}

#[derive(Default)]
struct Columns {
    time: Vec<i64>,
    texts: [Vec<ByteArray>; 5],
    index: Vec<i64>,
    value: Vec<Option<f64>>,
    least: Vec<Option<f64>>,
    greatest: Vec<Option<f64>>,
    samples: Vec<i64>,
    cause: Vec<Option<ByteArray>>,
    server: Vec<Option<ByteArray>>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(output: W) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).context("the schema")?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(output, schema, Arc::new(properties)).context("write the table")?;
        Ok(Self { file, columns: Columns::default(), head: None, texts: Default::default(), server: None })
    }

    fn write_group(&mut self) -> Result<()> {
        let columns = std::mem::take(&mut self.columns);
        if columns.time.is_empty() {
            return Ok(());
        }
        columns.write(&mut self.file).context("write the table")
    }
}

impl Columns {
    fn write(self, file: &mut SerializedFileWriter<impl Write + Send>) -> parquet::errors::Result<()> {
        let mut group = file.next_row_group()?;
        required::<Int64Type, _>(&mut group, &self.time)?;
        for texts in &self.texts {
            required::<ByteArrayType, _>(&mut group, texts)?;
        }
        required::<Int64Type, _>(&mut group, &self.index)?;
        for values in [self.value, self.least, self.greatest] {
            optional::<DoubleType, _>(&mut group, values)?;
        }
        required::<Int64Type, _>(&mut group, &self.samples)?;
        optional::<ByteArrayType, _>(&mut group, self.cause)?;
        optional::<ByteArrayType, _>(&mut group, self.server)?;
        group.close().map(drop)
    }
}

impl<W: Write + Send> Table for Parquet<W> {
    fn rows(&mut self, head: &Arc<Head>, rows: &[Row]) -> Result<()> {
        if !self.head.as_ref().is_some_and(|known| Arc::ptr_eq(known, head)) {
            let Head { session, stream, channel, .. } = head.as_ref();
            let session = format!("{session:016x}");
            self.texts = [head.origin(), stream, &channel.name, &channel.unit, &session].map(ByteArray::from);
            self.server = Some(head.server()).filter(|server| !server.is_empty()).map(ByteArray::from);
            self.head = Some(head.clone());
        }
        let columns = &mut self.columns;
        for row in rows {
            columns.time.push(row.time);
            for (column, text) in columns.texts.iter_mut().zip(&self.texts) {
                column.push(text.clone());
            }
            columns.index.push(row.index.cast_signed());
            columns.value.push(row.value);
            let (least, greatest) = row.envelope.unzip();
            columns.least.push(least);
            columns.greatest.push(greatest);
            columns.samples.push(row.samples.cast_signed());
            columns.cause.push(row.cause.map(|cause| cause.name().into()));
            columns.server.push(self.server.clone());
        }
        if columns.time.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write_group()?;
        self.file.close().map(drop).context("write the table")
    }
}

fn required<D: DataType<T = T>, T>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T],
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<D>().write_batch(values, None, None)?;
    column.close()
}

fn optional<D: DataType<T = T>, T>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: Vec<Option<T>>,
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T> = values.into_iter().flatten().collect();
    column.typed::<D>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

/// Rows that are read together, and held in memory until they are written.
const GROUP_ROWS: usize = 500_000;

const SCHEMA: &str = "message signals {
    REQUIRED INT64 time (TIMESTAMP(NANOS, true));
    REQUIRED BYTE_ARRAY station (STRING);
    REQUIRED BYTE_ARRAY stream (STRING);
    REQUIRED BYTE_ARRAY channel (STRING);
    REQUIRED BYTE_ARRAY unit (STRING);
    REQUIRED BYTE_ARRAY session (STRING);
    REQUIRED INT64 index;
    OPTIONAL DOUBLE value;
    OPTIONAL DOUBLE least;
    OPTIONAL DOUBLE greatest;
    REQUIRED INT64 samples;
    OPTIONAL BYTE_ARRAY cause (STRING);
    OPTIONAL BYTE_ARRAY server (STRING);
}";
