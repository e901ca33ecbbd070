use ccm_tests::lab::Setup;

#[test]
fn a_new_service_is_served_and_deleted_without_leftovers() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let answering = lab.reach("198.51.100.7", "203.0.113.10", 80);
    assert_eq!(answering, ["node-1", "node-2", "node-3"].map(str::to_owned).into());
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert!(lab.reach("198.51.100.7", "203.0.113.10", 80).is_empty());
}
