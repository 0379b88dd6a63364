//! What others published, beside ours.

use rust_xlsxwriter::utility::row_col_to_cell;
use rust_xlsxwriter::{Format, Formula, Worksheet, XlsxError};

use super::{Measured, colours, columns, cut, heading, matrix, number_format, ratio_colours, title, write_number};
use crate::comparison::{Compared, ComparedGrid, Comparison};

/// Fills a sheet with a line for each published value.
pub(super) fn list(sheet: &mut Worksheet, source: &str, compared: &[Comparison]) -> Result<(), XlsxError> {
    sheet.set_name("Published")?.set_freeze_panes(3, 0)?.set_landscape().set_print_fit_to_pages(1, 0);
    sheet.write_with_format(0, 0, cut(&format!("Published by {source}, and ours")), &title())?;
    let headings = ["Where", "Column", "Unit", "Published", "Ours", "Low", "High", "Difference", "Ours / published"];
    sheet.write_row_with_format(2, 0, headings, &heading())?;
    for (column, width) in
        [(0, 22.0), (1, 18.0), (2, 9.0), (3, 14.0), (4, 14.0), (5, 14.0), (6, 14.0), (7, 14.0), (8, 18.0)]
    {
        sheet.set_column_width(column, width)?;
    }
    for (row, compared) in (3u32..).zip(compared) {
        let format = number_format(&compared.column);
        sheet.write(row, 0, cut(&compared.place))?;
        sheet.write(row, 1, cut(&compared.column))?;
        sheet.write(row, 2, columns::unit(&compared.column))?;
        write_number(sheet, row, 3, compared.published, format)?;
        let Some(ours) = compared.ours else {
            sheet.write(row, 4, "not measured")?;
            continue;
        };
        write_number(sheet, row, 4, ours.value(), format)?;
        if let Measured::Estimate(estimate) = ours {
            write_number(sheet, row, 5, estimate.low, format)?;
            write_number(sheet, row, 6, estimate.high, format)?;
        }
        write_number(sheet, row, 7, ours.value() - compared.published, format)?;
        write_number(sheet, row, 8, ours.value() / compared.published, "0.00")?;
    }
    Ok(())
}

/// Fills a sheet with three grids below one another for each published grid: theirs, ours, and their ratio as a
/// formula.
pub(super) fn grids(sheet: &mut Worksheet, source: &str, grids: &[ComparedGrid]) -> Result<(), XlsxError> {
    sheet.set_name("Published grid")?.set_landscape().set_print_fit_to_pages(1, 0);
    sheet.write_with_format(0, 0, cut(&format!("Published by {source}, and ours")), &title())?;
    sheet.set_column_width(0, 17)?;
    let mut top = 3;
    for grid in grids {
        let height = grid.rows.len() as u32 + 3;
        let unit = columns::unit(&grid.column);
        let named = |what: &str| {
            let block = if grid.name.is_empty() { String::new() } else { format!("{}: ", grid.name) };
            format!("{block}{what}, {}", if unit.is_empty() { &grid.column } else { unit })
        };
        let names = [named("published"), named("ours"), named("ours / published").replace(&format!(", {unit}"), "")];
        for (index, name) in (0u32..).zip(&names) {
            let axes = [grid.down.as_str(), grid.across.as_str()];
            matrix::headings(sheet, top + index * height, (name, &grid.rows, &grid.columns), axes)?;
        }
        for (row, fields) in (top + 1..).zip(&grid.fields) {
            for (column, field) in (1u16..).zip(fields) {
                let Some(Compared { published, ours }) = field else { continue };
                let rate = matrix::RATE;
                write_number(sheet, row, column, *published, rate)?;
                let Some(ours) = ours.map(|ours| ours.value()).filter(|ours| ours.is_finite()) else {
                    continue;
                };
                write_number(sheet, row + height, column, ours, rate)?;
                if *published > 0.0 {
                    let at = |row| row_col_to_cell(row, column);
                    let formula = Formula::new(format!("={}/{}", at(row + height), at(row)));
                    let formula = formula.set_result((ours / published).to_string());
                    let format = Format::new().set_num_format("0.00");
                    sheet.write_formula_with_format(row + 2 * height, column, formula, &format)?;
                }
            }
        }
        let last = (grid.rows.len() as u32, grid.columns.len() as u16);
        for index in 0..3 {
            let first = top + index * height + 1;
            let colours = if index == 2 { ratio_colours() } else { colours(true) };
            sheet.add_conditional_format(first, 1, first + last.0 - 1, last.1, &colours)?;
        }
        top += 3 * height + 1;
    }
    Ok(())
}
