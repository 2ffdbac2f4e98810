//! `proctor schema`.

use proctor_agents::ADAPTERS;
use proctor_harness::{
    cluster::spec::TrialSpec,
    config::{schema_for_config, schema_for_eval},
};
use proctor_record::{
    record::{Record, Results},
    transcript,
};
use serde_json::Value;

use crate::{
    args::{SchemaArgs, SchemaName},
    error::{CliError, Exit},
    ui,
};

pub fn schema(args: &SchemaArgs) -> Result<Exit, CliError> {
    let schema = match args.name {
        SchemaName::Suite => schema_for_config(ADAPTERS),
        SchemaName::Eval => schema_for_eval(),
        SchemaName::Log => Value::from(transcript::schema()),
        SchemaName::Results => Value::from(schemars::schema_for!(Results)),
        SchemaName::Trial => Value::from(schemars::schema_for!(TrialSpec)),
        SchemaName::Record => Value::from(schemars::schema_for!(Record)),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?;
    ui::print(&format!("{text}\n"))?;
    Ok(Exit::Success)
}
