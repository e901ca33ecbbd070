//! Lists are whole or an error.

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::observe::scope::Scope;
use serde_json::{Value, json};

use super::support::{broken, client, client_with, of, ok, page_of, refused};
use crate::{Options, TransportErrorKind, WireRequest};

const LISTED: &str = "listVirtualMachines";

fn machines(count: usize) -> Vec<Value> {
    let row = |number| {
        json!({"id": format!("vm-{number:04}"), "name": format!("n{number}"),
               "state": "Running", "zonename": "z", "nic": []})
    };
    (0..count).map(row).collect()
}

/// Observes with a server that has no object but the machines that `script` lists.
async fn observe(
    page_size: u32,
    mut script: impl FnMut(&WireRequest) -> super::support::Reply + Send + 'static,
) -> (Result<usize, CallError>, Vec<(String, String)>) {
    let options = Options { page_size, ..Options::default() };
    let (client, server) = client_with(options, move |request| {
        if of(request, "command") == LISTED { script(request) } else { ok(&json!({})) }
    });
    let state = client.observe(&Scope::default()).await;
    let asked = server.asked();
    let pages = asked
        .iter()
        .map(|(_, request)| request)
        .filter(|request| of(request, "command") == LISTED)
        .map(|request| (of(request, "page").to_owned(), of(request, "pagesize").to_owned()))
        .collect();
    (state.map(|state| state.virtual_machines.len()), pages)
}

fn pages(sizes: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(page, size): &(&str, &str)| ((*page).to_owned(), (*size).to_owned());
    sizes.iter().map(own).collect()
}

#[tokio::test(start_paused = true)]
async fn c002_all_pages_are_read() {
    let rows = machines(25);
    let (count, asked) =
        observe(10, move |request| page_of(request, "virtualmachine", &rows)).await;
    assert_eq!(count, Ok(25));
    assert_eq!(asked, pages(&[("1", "10"), ("2", "10"), ("3", "10")]));
}

#[tokio::test(start_paused = true)]
async fn a_full_last_page_is_not_followed_by_an_empty_one() {
    let rows = machines(20);
    let (count, asked) =
        observe(10, move |request| page_of(request, "virtualmachine", &rows)).await;
    assert_eq!((count, asked.len()), (Ok(20), 2));
}

#[tokio::test(start_paused = true)]
async fn c002_a_named_page_size_is_learned_and_kept() {
    let rows = machines(12);
    let (client, server) =
        client_with(Options { page_size: 500, ..Options::default() }, move |request| {
            match of(request, "pagesize").parse::<u32>() {
                Ok(size) if size > 10 => {
                    refused(431, "Page size can't exceed max allowed page size value: 10")
                }
                Ok(_) if of(request, "command") == LISTED => {
                    page_of(request, "virtualmachine", &rows)
                }
                _ => ok(&json!({})),
            }
        });
    for _ in 0..2 {
        let state = client.observe(&Scope::default()).await.unwrap();
        assert_eq!(state.virtual_machines.len(), 12);
    }
    let tried: Vec<String> = server
        .asked()
        .iter()
        .filter(|(_, request)| of(request, "command") == LISTED)
        .map(|(_, request)| of(request, "pagesize").to_owned())
        .collect();
    assert_eq!(tried, ["500", "10", "10", "10", "10"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_named_size_it_is_halved() {
    let rows = machines(3);
    let (count, asked) = observe(40, move |request| match of(request, "pagesize").parse::<u32>() {
        Ok(size) if size > 12 => refused(431, "invalid pagesize"),
        _ => page_of(request, "virtualmachine", &rows),
    })
    .await;
    assert_eq!(count, Ok(3));
    assert_eq!(asked, pages(&[("1", "40"), ("1", "20"), ("1", "10")]));
}

#[tokio::test(start_paused = true)]
async fn c002_a_list_that_moves_is_read_again_from_the_start() {
    let mut calls = 0;
    let (count, asked) = observe(2, move |request| {
        calls += 1;
        // The first row goes between the pages of the first attempt: the third moves up unseen.
        let rows = if calls == 1 { machines(4) } else { machines(4)[1..].to_vec() };
        page_of(request, "virtualmachine", &rows)
    })
    .await;
    assert_eq!(count, Ok(3));
    assert_eq!(asked, pages(&[("1", "2"), ("2", "2"), ("1", "2"), ("2", "2")]));
}

#[tokio::test(start_paused = true)]
async fn c002_a_list_that_never_adds_up_is_an_error_and_no_part_of_it_is_used() {
    let twice = json!({"count": 2, "virtualmachine": [machines(1)[0], machines(1)[0]]});
    let short = json!({"count": 3, "virtualmachine": machines(2)});
    let rows_missing = json!({"count": 3});
    for (answer, found) in [
        (twice, "an id is listed twice"),
        (short, "count is 3, the pages hold 2"),
        (rows_missing, "count is 3, the pages hold 0"),
    ] {
        let (result, asked) = observe(500, move |_| ok(&answer)).await;
        let error = result.unwrap_err();
        assert_eq!((error.fault, error.effect), (Fault::Transient, Effect::No));
        assert_eq!(error.command, LISTED);
        assert!(error.message.contains(found), "{error}");
        assert_eq!(asked.len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn c002_a_page_that_fails_fails_the_list() {
    let (client, _) = client(|request| {
        let second = of(request, "page") == "2";
        match of(request, "command") {
            LISTED if second => refused(530, "Internal error executing command"),
            LISTED => ok(&json!({"count": 501, "virtualmachine": machines(500)})),
            _ => ok(&json!({})),
        }
    });
    let error = client.observe(&Scope::default()).await.unwrap_err();
    assert_eq!((error.code, error.fault), (Some(530), Fault::Cloud));
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_to_be_read_get_smaller() {
    let rows = machines(10);
    let (count, asked) = observe(16, move |request| {
        if of(request, "pagesize").parse::<u32>().unwrap() > 5 {
            return broken(TransportErrorKind::TooLarge, true);
        }
        page_of(request, "virtualmachine", &rows)
    })
    .await;
    assert_eq!(count, Ok(10));
    assert_eq!(asked, pages(&[("1", "16"), ("1", "8"), ("1", "4"), ("2", "4"), ("3", "4")]));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_too_large_to_be_read_is_an_error_after_few_questions() {
    let (count, asked) = observe(500, |_| broken(TransportErrorKind::TooLarge, true)).await;
    let error = count.unwrap_err();
    assert_eq!((error.fault, error.command.as_str()), (Fault::Transient, LISTED));
    assert_eq!(asked.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_ends_fills_no_memory() {
    let ballast = "x".repeat(4 << 20);
    let (count, asked) = observe(1, move |request| {
        let row = json!({"id": of(request, "page"), "name": ballast});
        ok(&json!({"count": 1_000_000, "virtualmachine": [row]}))
    })
    .await;
    let error = count.unwrap_err().to_string();
    assert!(error.starts_with(LISTED) && error.contains("more than 256 MiB"), "{error}");
    assert_eq!(asked.len(), 64);
}
