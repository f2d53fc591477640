//! Text in columns, as kubectl prints it: two spaces between, no borders.

use std::fmt::Write;

/// Rows of cells under a title. Cells may carry colour codes, which take no room.
pub struct Columns {
    rows: Vec<Row>,
    indent: usize,
}

enum Row {
    Cells(Vec<String>),
    Line(String),
}

impl Columns {
    /// No rows yet; every row will begin after `indent` spaces.
    pub fn new(indent: usize) -> Self {
        Self { rows: Vec::new(), indent }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(Row::Cells(cells.map(str::to_owned).to_vec()));
    }

    /// Adds a line that is not in columns, four spaces further in than the rows.
    pub fn line(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Line(text.into()));
    }

    /// The text, a line a row, without spaces at the ends of lines.
    pub fn render(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let line = match row {
                Row::Line(line) => format!("    {line}"),
                Row::Cells(cells) => cells.iter().zip(&widths).fold(String::new(), |line, (cell, width)| {
                    line + cell + &" ".repeat(width + 2 - shown(cell))
                }),
            };
            let _ = writeln!(text, "{}{}", " ".repeat(self.indent), line.trim_end());
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(shown(cell));
            }
        }
        widths
    }
}

/// The number of characters that are seen.
fn shown(cell: &str) -> usize {
    anstream::adapter::strip_str(cell).map(|part| part.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{BAD, paint};

    #[test]
    fn columns_are_as_wide_as_what_is_seen_in_them() {
        let mut columns = Columns::new(1);
        columns.row(["NAME", "READY", "AGE"]);
        columns.row(["a", &paint(BAD, "no"), "1"]);
        columns.line("because");
        let text = anstream::adapter::strip_str(&columns.render()).to_string();
        assert_eq!(text, " NAME  READY  AGE\n a     no     1\n     because\n");
    }
}
