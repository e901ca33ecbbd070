//! Rules that every plan must keep, restated simply and without the planner's code.
