//! The console blocks of each folder of the documentation, but those of pages with commands of `carob-studies`.

#![cfg(target_os = "linux")]

use std::fs;

use crate::console::{FOLDERS, docs, pages, run};

macro_rules! folders {
    ($($test:ident $folder:literal)*) => {
        $(#[test]
        fn $test() {
            run($folder, false);
        })*

        #[test]
        fn every_folder_has_a_test() {
            assert_eq!([$($folder),*], FOLDERS);
            let folders = fs::read_dir(docs()).expect("the documentation is there");
            for folder in folders.map(|folder| folder.expect("a folder").path()) {
                let name = folder.file_name().and_then(|name| name.to_str());
                let name = name.expect("names are text").to_owned();
                // Architecture decision records have no commands.
                if folder.is_dir() && name != "adr" && !FOLDERS.contains(&name.as_str()) {
                    let pages = pages(&name);
                    assert!(pages.is_empty(), "{name} has console blocks that are not run");
                }
            }
        }
    };
}

folders! {
    slow_get_started "start"
    nightly_tutorials "tutorials"
    slow_cookbook "cookbook"
    slow_operate "operate"
    slow_concepts "concepts"
    reference "reference"
    slow_evidence "evidence"
}
