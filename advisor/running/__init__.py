"""A recommended server started, waited for, asked once and handed over (`advise run`)."""
