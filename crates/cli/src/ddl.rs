//! `settle ddl`

use std::path::Path;

use settle_engine::config::Config;
use settle_engine::pipeline;

use crate::args::DdlArgs;
use crate::exit::{self, Exit, fail};

/// Samples the topics and prints the tables that a run would make.
pub fn execute(path: &Path, args: &DdlArgs) -> Exit {
    exit::by_config(path, async |config| print(&config, args).await)
}

async fn print(config: &Config, args: &DdlArgs) -> Exit {
    let sample = match pipeline::sample(config, args.sample).await {
        Ok(sample) => sample,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    for refusal in sample.refusals.iter().take(3) {
        eprintln!("settle: left out: {refusal}");
    }
    match pipeline::ddl(config, &sample).await {
        Ok(statements) if statements.is_empty() => {
            eprintln!(
                "settle: the topics hold no rows to take tables from; declare columns under [tables.\"…\".columns]"
            );
            Exit::Contract
        }
        Ok(statements) => {
            for statement in statements {
                println!("{};\n", statement.trim_end_matches(';'));
            }
            Exit::Done
        }
        Err(error) => fail(exit::of_sink(&error), &error),
    }
}
