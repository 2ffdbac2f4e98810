//! A list of the log before the document is complete: in memory at first, then in the output or in a
//! temporary file.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
};

/// The maximum size of messages and of tool calls in memory. Most sessions need no more, and their
/// document starts with the account.
const MAX_IN_MEMORY: usize = 1 << 20;
/// The size of a buffer in front of a file.
pub(super) const BUFFER: usize = 64 << 10;
/// The start of the document.
pub(super) const START: &[u8] = b"{\"version\":\"1.0.0\",";

/// The messages or the tool calls.
pub(super) struct List {
    pub(super) name: &'static str,
    pub(super) items: Items,
    is_empty: bool,
}

/// Where the items of a list are before the document is complete.
pub(super) enum Items {
    Memory(Vec<u8>),
    /// In the document.
    Output,
    File(BufWriter<File>),
}

impl List {
    pub(super) fn new(name: &'static str) -> List {
        List {
            name,
            items: Items::Memory(Vec::new()),
            is_empty: true,
        }
    }

    pub(super) fn next_item<'a, W: Write>(
        &'a mut self,
        out: &'a mut BufWriter<W>,
    ) -> io::Result<&'a mut dyn Write> {
        let out: &mut dyn Write = match &mut self.items {
            Items::Memory(items) => items,
            Items::Output => out,
            Items::File(file) => file,
        };
        out.write_all(separator(&mut self.is_empty))?;
        Ok(out)
    }

    /// Moves a list that has become long out of memory.
    pub(super) fn item_done<W: Write>(
        &mut self,
        out: &mut BufWriter<W>,
        is_started: &mut bool,
    ) -> io::Result<()> {
        let Items::Memory(items) = &self.items else {
            return Ok(());
        };
        if items.len() <= MAX_IN_MEMORY {
            return Ok(());
        }
        let long = if std::mem::replace(is_started, true) {
            let mut file = BufWriter::with_capacity(BUFFER, tempfile::tempfile()?);
            file.write_all(items)?;
            Items::File(file)
        } else {
            out.write_all(START)?;
            write!(out, "\n\"{}\":[", self.name)?;
            out.write_all(items)?;
            Items::Output
        };
        self.items = long;
        Ok(())
    }

    /// Writes the list to the document, unless it is there.
    pub(super) fn copy_to(self, out: &mut impl Write) -> io::Result<()> {
        if matches!(self.items, Items::Output) {
            return Ok(());
        }
        write!(out, ",\n\"{}\":[", self.name)?;
        match self.items {
            Items::Memory(items) => out.write_all(&items)?,
            Items::Output => {}
            Items::File(file) => {
                let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                io::copy(&mut file, out)?;
            }
        }
        out.write_all(b"]")
    }
}

fn separator(is_empty: &mut bool) -> &'static [u8] {
    if std::mem::replace(is_empty, false) {
        b"\n"
    } else {
        b",\n"
    }
}
