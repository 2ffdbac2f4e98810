//! `proctor prices`: the prices of models and their sources.

use std::fmt::Write as _;

use proctor_gateway::{Price, Prices};
use proctor_harness::config::{self, Settings, SuiteFile, read_prices};
use proctor_sandbox::host::Host;
use serde::Serialize;

use crate::{
    args::PricesArgs,
    error::{CliError, Exit},
    host, ui,
};

/// The prices of one source.
struct Layer {
    from: String,
    prices: Vec<Price>,
}

/// A model's price, and where it comes from.
#[derive(Serialize)]
struct PriceRow<'a> {
    model: &'a str,
    from: &'a str,
    confirmed: bool,
    price: &'a Price,
}

/// The JSON output.
#[derive(Serialize)]
struct PriceTable<'a> {
    /// Sources in order; later ones take precedence.
    order: Vec<&'a str>,
    prices: Vec<PriceRow<'a>>,
}

pub fn prices(args: &PricesArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let layers = layers(args, &host, &settings)?;
    let all = layers.iter().flat_map(|layer| layer.prices.clone());
    let all = Prices::of(all).map_err(|error| CliError::Prices(error.to_string()))?;
    let rows: Vec<PriceRow<'_>> = match &args.model {
        None => all
            .iter()
            .map(|(model, price)| row(model, price, &layers))
            .collect(),
        Some(model) => {
            let price = all.find(model).ok_or_else(|| CliError::NoPrice {
                model: model.clone(),
            })?;
            vec![row(model, price, &layers)]
        }
    };
    let order = layers.iter().map(|layer| layer.from.as_str()).collect();
    if args.json {
        ui::print_json(&PriceTable {
            order,
            prices: rows,
        })?;
    } else {
        ui::print(&text(&order, &rows, args.model.is_some()))?;
    }
    Ok(Exit::Success)
}

/// The sources of prices; later ones take precedence.
fn layers(args: &PricesArgs, host: &Host, settings: &Settings) -> Result<Vec<Layer>, CliError> {
    let mut layers = vec![Layer {
        from: "built-in".to_owned(),
        prices: Prices::built_in_list(),
    }];
    let mut add = |from: String, prices: Vec<Price>| {
        if !prices.is_empty() {
            layers.push(Layer { from, prices });
        }
    };
    add(".youbencharc".to_owned(), settings.prices.clone());
    if let Some(file) = &args.config {
        let gateway = if let Some(suite) = SuiteFile::open(file) {
            let suite = super::resolve(suite, host, settings)?;
            suite.execution.gateway
        } else {
            let case = config::load(file, &host.env, settings);
            case.map_err(|error| CliError::Config(vec![error]))?.gateway
        };
        add(file.to_string(), gateway.unwrap_or_default().prices);
    }
    if let Some(file) = &args.prices {
        let prices = read_prices(&host.cwd.join(file)).map_err(CliError::Prices)?;
        add(file.to_string(), prices);
    }
    Ok(layers)
}

fn row<'a>(model: &'a str, price: &'a Price, layers: &'a [Layer]) -> PriceRow<'a> {
    let holds = |layer: &&Layer| layer.prices.contains(price);
    let from = layers.iter().rev().find(holds);
    PriceRow {
        model,
        from: from.map_or("", |layer| layer.from.as_str()),
        confirmed: !price.is_unconfirmed(),
        price,
    }
}

fn text(order: &[&str], rows: &[PriceRow<'_>], with_source: bool) -> String {
    let mut text = format!(
        "{:<24} {:>8} {:>8} {:>10} {:>9} {:>9}  {:<11} {}\n",
        "model", "input", "output", "cache read", "write 5m", "write 1h", "checked", "from"
    );
    for row in rows {
        let price = row.price;
        let write_5m = price.cache_write_5m.unwrap_or(price.input);
        let doubt = if row.confirmed { "" } else { " ?" };
        let _ = writeln!(
            text,
            "{:<24} {:>8} {:>8} {:>10} {:>9} {:>9}  {:<11} {}{doubt}",
            row.model,
            price.input,
            price.output,
            price.cache_read.unwrap_or(price.input),
            write_5m,
            price.cache_write_1h.unwrap_or(write_5m),
            price.checked,
            row.from,
        );
        if with_source {
            text.push_str(&details(price));
        }
    }
    let _ = write!(
        text,
        "\nUSD per million tokens. `?`: not confirmed on the provider's page.\nSources; later ones take precedence: {}\n",
        order.join(", "),
    );
    text
}

fn details(price: &Price) -> String {
    let mut text = format!("  source: {}\n", price.source);
    if let Some(long) = &price.long {
        let _ = writeln!(
            text,
            "  prompts over {} tokens: {} in, {} out",
            ui::count(long.above),
            long.input,
            long.output,
        );
    }
    if let Some(most) = price.up_to {
        let _ = writeln!(text, "  prompts over {} tokens: unknown", ui::count(most));
    }
    text
}
