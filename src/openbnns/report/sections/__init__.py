"""The parts of the page: each is a module with ``section(facts)``, which gives None if there is nothing to say."""
