//! `settle ddl`

use std::path::Path;

use settle_engine::config::Config;
use settle_engine::pipeline;

use crate::args::DdlArgs;
use crate::exit::{self, Exit, fail};

/// Samples the topics and prints the tables that a run would make.
pub fn execute(path: &Path, args: &DdlArgs) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return fail(Exit::Usage, &error),
    };
    let sample = match exit::block_on(pipeline::sample(&config, args.sample)) {
        Ok(Ok(sample)) => sample,
        Ok(Err(error)) => return fail(exit::of_source(&error), &error),
        Err(error) => return fail(Exit::Bug, &error),
    };
    for refusal in sample.refusals.iter().take(3) {
        eprintln!("settle: left out: {refusal}");
    }
    match pipeline::ddl(&config, &sample) {
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
